"""To other processes of this node by a router of Zenoh, under a key of its own.

What arrives comes in threads of Zenoh's, and is handed over to the loop.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final

from bridge.connectors.offices.broker_address import BrokerAddress
from bridge.connectors.offices.broker_message import MOST_BYTES
from bridge.connectors.offices.service.broker import BrokerAway
from storage.errors import LocalError

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
            raise BrokerAway(_reason(error)) from None

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
            raise BrokerAway(_reason(error)) from None

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


def _reason(error: Exception) -> str:
    said = str(error).strip().splitlines()
    return (said[0] if said else type(error).__name__)[:200].rstrip(".")
