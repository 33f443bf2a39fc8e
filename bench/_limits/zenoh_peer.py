"""Two Zenoh peers on one TCP connection over loopback, and a message and its echo."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import zenoh

THERE, BACK = "bench/there", "bench/back"
_START_SECONDS = 10.0


def configuration(*, listen: str | None = None, connect: str | None = None) -> zenoh.Config:
    """A peer with one endpoint: it discovers no others, and cannot be discovered."""
    configured = zenoh.Config()
    configured.insert_json5("mode", json.dumps("peer"))
    configured.insert_json5("scouting/multicast/enabled", json.dumps(False))
    configured.insert_json5("scouting/gossip/enabled", json.dumps(False))
    configured.insert_json5("listen/endpoints", json.dumps([listen] if listen else []))
    configured.insert_json5("connect/endpoints", json.dumps([connect] if connect else []))
    return configured


class ZenohPeer:
    """The local end. A coroutine waits for the echo, which arrives in a thread of Zenoh."""

    def __init__(self, session: zenoh.Session) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Future[None] | None = None
        self._there = session.declare_publisher(THERE)
        self._back = session.declare_subscriber(BACK, self._receive)

    async def until_connected(self) -> None:
        """Messages before both peers know each other are dropped, so the message is repeated."""
        async with asyncio.timeout(_START_SECONDS):
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.1):
                        return await self.round_trip(b"hello")

    async def round_trip(self, payload: bytes) -> None:
        """Put a message, and wait for its echo."""
        self._waiting = self._loop.create_future()
        self._there.put(payload)
        await self._waiting

    def _receive(self, _sample: Any) -> None:
        self._loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        # The echo of an earlier, abandoned message may still arrive, when no caller or a later one waits.
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
