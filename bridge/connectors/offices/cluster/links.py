"""Where the broker is by which several processes of one node serve the same offices.

`redis://HOST:PORT/NUMBER` is a Redis, `tcp/HOST:PORT` a router of Zenoh. A password stands in neither: it is
in a file of its own.

To other processes of this node by a Redis, in a channel of its own.

python-socketio has a manager for this; it does not say when it listens again after the broker was away, and
keeps the order of what is said only as long as nobody says two things at once.

To other processes of this node by a router of Zenoh, under a key of its own.

What arrives comes in threads of Zenoh's, and is handed over to the loop.

Which broker is spoken with in which way, and in which place there: that of this node alone.
"""

import asyncio
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from bridge.connectors.offices.cluster.broker import MOST_BYTES, BrokerAway, Link
from storage.errors import LocalError

Kind: TypeAlias = Literal["redis", "zenoh"]

_HOST: Final = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])"
_REDIS: Final = re.compile(
    rf"redis://(?:[A-Za-z0-9._-]{{1,100}}@)?{_HOST}(?P<port>:\d{{1,5}})?(?:/\d{{1,5}})?", re.ASCII
)
_ZENOH: Final = re.compile(rf"tcp/{_HOST}(?P<port>:\d{{1,5}})", re.ASCII)
_WITH_PASSWORD: Final = re.compile(r"[A-Za-z0-9+.-]+:/*[^/@]*:[^@]*@|.*[?&]password=", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """`password` is that for Redis."""

    kind: Kind
    url: str
    password: str | None = None

    def __repr__(self) -> str:
        """Without the password, wherever it is shown."""
        return f"BrokerAddress({self.url})"


@dataclass(frozen=True, slots=True)
class NoBroker:
    """The sentence says why it is none, and repeats nothing that may be a secret."""

    sentence: str


def broker_address(said: str) -> BrokerAddress | NoBroker:
    for kind, form in _FORMS.items():
        match = form.fullmatch(said)
        if match is None:
            continue
        port = match["port"]
        if port is not None and not 0 < int(port[1:]) <= 65_535:
            return NoBroker("has a port that there is not: those go from 1 to 65535")
        return BrokerAddress(kind, said)
    if _WITH_PASSWORD.match(said):
        return NoBroker(
            "must not hold a password: put that into a file of its own and name it in broker_password_file"
        )
    return NoBroker("is no broker: write redis://HOST:PORT/NUMBER for a Redis, or tcp/HOST:PORT for Zenoh")


_FORMS: Final[dict[Kind, re.Pattern[str]]] = {"redis": _REDIS, "zenoh": _ZENOH}


CONNECTED_WITHIN: Final = 5.0
ASKED_EVERY: Final = 10.0
"""Seconds of silence after which it is asked whether it is still there."""


class RedisLink:
    """LocalError when what it takes is not installed."""

    def __init__(self, address: BrokerAddress, channel: str) -> None:
        # Only whoever uses it has it.
        try:
            from redis import asyncio as redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
            from redis.exceptions import RedisError
        except ImportError:
            raise LocalError(
                "offices.broker names a Redis, and what speaks with one is not installed.",
                "Install the package redis where Palaver is installed; palaver[redis] brings it.",
            ) from None
        self._broken: tuple[type[Exception], ...] = (RedisError, OSError, TimeoutError)
        self._channel = channel
        self._redis: Any = redis.Redis.from_url(
            address.url,
            password=address.password,
            socket_connect_timeout=CONNECTED_WITHIN,
            socket_timeout=None,
            health_check_interval=ASKED_EVERY,
            # Whoever says something is told that it was lost, and whoever listens has to know it.
            retry=Retry(NoBackoff(), 0),
        )

    async def send(self, data: bytes) -> None:
        try:
            await self._redis.publish(self._channel, data)
        except self._broken as error:
            raise BrokerAway(_redis_reason(error)) from None

    async def listen(self, began: Callable[[], None]) -> AsyncIterator[bytes]:
        pubsub = self._redis.pubsub()
        try:
            await pubsub.subscribe(self._channel)
            while True:
                # Without a message for so long the next turn asks whether it is still there.
                message = await pubsub.get_message(timeout=ASKED_EVERY)
                if message is None:
                    await pubsub.check_health()
                elif message["type"] == "subscribe":
                    began()
                elif message["type"] == "message":
                    yield message["data"]
        except self._broken as error:
            # Those by which something was said before have ended with this one, and would only find out then.
            await self._redis.connection_pool.disconnect(inuse_connections=False)
            raise BrokerAway(_redis_reason(error)) from None
        finally:
            await pubsub.aclose()

    async def close(self) -> None:
        await self._redis.aclose()


def _redis_reason(error: Exception) -> str:
    """What a Redis says of a password does not hold it; its first line is enough."""
    said = str(error).strip().splitlines()
    return (said[0] if said else type(error).__name__).rstrip(".")


LOOKED_AT_EVERY: Final = 1.0
"""Seconds between two looks whether the router is there: nobody says so."""
MOST_ARRIVED: Final = 10_000
_AWAY: Final = "its router does not answer"


class ZenohLink:
    """LocalError when what it takes is not installed."""

    def __init__(self, address: BrokerAddress, key: str) -> None:
        # Only whoever uses it has it.
        try:
            import zenoh
        except ImportError:
            raise LocalError(
                "offices.broker names a router of Zenoh, and what speaks with one is not installed.",
                "Install the package eclipse-zenoh where Palaver is installed; palaver[zenoh] brings it.",
            ) from None
        self._zenoh: Any = zenoh
        self._key = key
        self._endpoint = address.url
        self._session: Any = None
        self._publisher: Any = None
        self._arrived: deque[bytes] = deque()
        self._woken = asyncio.Event()
        self._is_full = False
        # Of its own: what is waited for long holds up nothing else.
        self._thread = ThreadPoolExecutor(1, "zenoh")

    async def send(self, data: bytes) -> None:
        if self._publisher is None or not self._is_linked():
            raise BrokerAway(_AWAY)
        try:
            # It waits where there is more to be sent than the router takes.
            await asyncio.get_running_loop().run_in_executor(self._thread, self._publisher.put, data)
        except self._zenoh.ZError as error:
            raise BrokerAway(_zenoh_reason(error)) from None

    async def listen(self, began: Callable[[], None]) -> AsyncIterator[bytes]:
        if self._session is None:
            await self._open()
        if not self._is_linked():
            raise BrokerAway(_AWAY)
        began()
        while True:
            while self._arrived:
                yield self._arrived.popleft()
            if self._is_full:
                self._is_full = False
                began()
            self._woken.clear()
            try:
                async with asyncio.timeout(LOOKED_AT_EVERY):
                    await self._woken.wait()
            except TimeoutError:
                if not self._is_linked():
                    raise BrokerAway(_AWAY) from None

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(self._zenoh.ZError):
                await asyncio.to_thread(session.close)
        self._thread.shutdown(wait=False)

    # -- inside --

    async def _open(self) -> None:
        zenoh, loop = self._zenoh, asyncio.get_running_loop()

        def arrived(sample: Any) -> None:
            data = bytes(sample.payload) if len(sample.payload) <= MOST_BYTES else b""
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._take, data)

        def opened() -> tuple[Any, Any]:
            session = zenoh.open(_configuration(zenoh, self._endpoint))
            session.declare_subscriber(self._key, arrived, allowed_origin=zenoh.Locality.REMOTE)
            publisher = session.declare_publisher(
                self._key,
                congestion_control=zenoh.CongestionControl.BLOCK,
                allowed_destination=zenoh.Locality.REMOTE,
            )
            return session, publisher

        try:
            self._session, self._publisher = await asyncio.to_thread(opened)
        except zenoh.ZError as error:
            raise BrokerAway(_zenoh_reason(error)) from None

    def _take(self, data: bytes) -> None:
        if len(self._arrived) >= MOST_ARRIVED:
            self._is_full = True  # it is looked up what was missed
        else:
            self._arrived.append(data)
        self._woken.set()

    def _is_linked(self) -> bool:
        return bool(self._session.info.routers_zid())


def _configuration(zenoh: Any, endpoint: str) -> Any:
    """A client of one router, which looks for nobody and is found by nobody."""
    configured = zenoh.Config()
    for name, value in (
        ("mode", "client"),
        ("connect/endpoints", [endpoint]),
        ("scouting/multicast/enabled", False),
        ("scouting/gossip/enabled", False),
    ):
        configured.insert_json5(name, json.dumps(value))
    return configured


def _zenoh_reason(error: Exception) -> str:
    said = str(error).strip().splitlines()
    return (said[0] if said else type(error).__name__)[:200].rstrip(".")


PLACE: Final = "palaver/offices"


def link_to(address: BrokerAddress, node_id: str) -> Link:
    """LocalError when what it takes is not installed."""
    place = f"{PLACE}/{node_id}"
    return RedisLink(address, place) if address.kind == "redis" else ZenohLink(address, place)
