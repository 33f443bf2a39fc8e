"""Links to the broker that connects several processes of one node. Each node uses its own Redis channel or
Zenoh key.

python-socketio has its own Redis manager. It does not report when it is subscribed again after a broker
failure, and it keeps the order of messages only if they are never sent concurrently.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from bridge.connectors.offices.cluster.broker import MAX_BYTES, BrokerUnavailable, Link
from bridge.connectors.offices.cluster.broker_address import BrokerAddress
from storage.errors import LocalError

CONNECT_TIMEOUT: Final = 5.0
HEALTH_CHECK_INTERVAL: Final = 10.0
"""Seconds without a message after which the connection is checked."""


class RedisLink:
    """Publishes to and subscribes to one channel. Raises `LocalError` if the package redis is not
    installed."""

    def __init__(self, address: BrokerAddress, channel: str) -> None:
        # An optional dependency.
        try:
            from redis import asyncio as redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
            from redis.exceptions import RedisError
        except ImportError:
            raise LocalError(
                "offices.broker names a Redis, but the package redis is not installed.",
                "Install redis, for example with palaver[redis].",
            ) from None
        self._errors: tuple[type[Exception], ...] = (RedisError, OSError, TimeoutError)
        self._channel = channel
        self._redis: Any = redis.Redis.from_url(
            address.url,
            password=address.password,
            socket_connect_timeout=CONNECT_TIMEOUT,
            socket_timeout=None,
            health_check_interval=HEALTH_CHECK_INTERVAL,
            # The sender must know that a message was lost, and the listener that it may have missed some.
            retry=Retry(NoBackoff(), 0),
        )

    async def send(self, data: bytes) -> None:
        try:
            await self._redis.publish(self._channel, data)
        except self._errors as error:
            raise BrokerUnavailable(_redis_reason(error)) from None

    async def listen(self, on_subscribed: Callable[[], None]) -> AsyncIterator[bytes]:
        pubsub = self._redis.pubsub()
        try:
            await pubsub.subscribe(self._channel)
            while True:
                # After this long without a message, check the connection.
                message = await pubsub.get_message(timeout=HEALTH_CHECK_INTERVAL)
                if message is None:
                    await pubsub.check_health()
                elif message["type"] == "subscribe":
                    on_subscribed()
                elif message["type"] == "message":
                    yield message["data"]
        except self._errors as error:
            # The pool's idle connections have failed as well, but would show it only when they are used.
            await self._redis.connection_pool.disconnect(inuse_connections=False)
            raise BrokerUnavailable(_redis_reason(error)) from None
        finally:
            await pubsub.aclose()

    async def close(self) -> None:
        await self._redis.aclose()


def _redis_reason(error: Exception) -> str:
    """The first line. Error messages of Redis do not contain the password."""
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__).rstrip(".")


ROUTER_CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks of the router: Zenoh does not report a lost connection."""
MAX_RECEIVED: Final = 10_000
_UNAVAILABLE: Final = "its router does not answer"


class ZenohLink:
    """Publishes to and subscribes to one key. Zenoh delivers messages in its own threads; they are handed
    over to the event loop. Raises `LocalError` if the package eclipse-zenoh is not installed."""

    def __init__(self, address: BrokerAddress, key: str) -> None:
        # An optional dependency.
        try:
            import zenoh
        except ImportError:
            raise LocalError(
                "offices.broker names a Zenoh router, but the package eclipse-zenoh is not installed.",
                "Install eclipse-zenoh, for example with palaver[zenoh].",
            ) from None
        self._zenoh: Any = zenoh
        self._key = key
        self._endpoint = address.url
        self._session: Any = None
        self._publisher: Any = None
        self._received: deque[bytes] = deque()
        self._woken = asyncio.Event()
        self._has_overflowed = False
        # A thread of its own, so that a blocked `put` holds up nothing else.
        self._thread = ThreadPoolExecutor(1, "zenoh")

    async def send(self, data: bytes) -> None:
        if self._publisher is None or not self._is_connected():
            raise BrokerUnavailable(_UNAVAILABLE)
        try:
            # `put` blocks while the router accepts no more messages.
            await asyncio.get_running_loop().run_in_executor(self._thread, self._publisher.put, data)
        except self._zenoh.ZError as error:
            raise BrokerUnavailable(_zenoh_reason(error)) from None

    async def listen(self, on_subscribed: Callable[[], None]) -> AsyncIterator[bytes]:
        if self._session is None:
            await self._open()
        if not self._is_connected():
            raise BrokerUnavailable(_UNAVAILABLE)
        on_subscribed()
        while True:
            while self._received:
                yield self._received.popleft()
            if self._has_overflowed:
                self._has_overflowed = False
                on_subscribed()
            self._woken.clear()
            try:
                async with asyncio.timeout(ROUTER_CHECK_INTERVAL):
                    await self._woken.wait()
            except TimeoutError:
                if not self._is_connected():
                    raise BrokerUnavailable(_UNAVAILABLE) from None

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(self._zenoh.ZError):
                await asyncio.to_thread(session.close)
        self._thread.shutdown(wait=False)

    # -- internals --

    async def _open(self) -> None:
        zenoh, loop = self._zenoh, asyncio.get_running_loop()

        def on_sample(sample: Any) -> None:
            data = bytes(sample.payload) if len(sample.payload) <= MAX_BYTES else b""
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(self._receive, data)

        def open_session() -> tuple[Any, Any]:
            session = zenoh.open(_configuration(zenoh, self._endpoint))
            session.declare_subscriber(self._key, on_sample, allowed_origin=zenoh.Locality.REMOTE)
            publisher = session.declare_publisher(
                self._key, congestion_control=zenoh.CongestionControl.BLOCK, allowed_destination=zenoh.Locality.REMOTE
            )
            return session, publisher

        try:
            self._session, self._publisher = await asyncio.to_thread(open_session)
        except zenoh.ZError as error:
            raise BrokerUnavailable(_zenoh_reason(error)) from None

    def _receive(self, data: bytes) -> None:
        if len(self._received) >= MAX_RECEIVED:
            self._has_overflowed = True  # the missed messages are made up for by a reload
        else:
            self._received.append(data)
        self._woken.set()

    def _is_connected(self) -> bool:
        return bool(self._session.info.routers_zid())


def _configuration(zenoh: Any, endpoint: str) -> Any:
    """A client of one router, without discovery in either direction."""
    configuration = zenoh.Config()
    for name, value in (
        ("mode", "client"),
        ("connect/endpoints", [endpoint]),
        ("scouting/multicast/enabled", False),
        ("scouting/gossip/enabled", False),
    ):
        configuration.insert_json5(name, json.dumps(value))
    return configuration


def _zenoh_reason(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return (text[0] if text else type(error).__name__)[:200].rstrip(".")


CHANNEL_PREFIX: Final = "palaver/offices"


def create_link(address: BrokerAddress, node_id: str) -> Link:
    """Raises `LocalError` if the package for this broker is not installed."""
    channel = f"{CHANNEL_PREFIX}/{node_id}"
    return RedisLink(address, channel) if address.kind == "redis" else ZenohLink(address, channel)
