"""Two processes on one Postgres, and a notification and its echo."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from bench._harness.database import connected

THERE, BACK = "bench_there", "bench_back"
_NOTIFY = "SELECT pg_notify($1, $2)"


class NotifyPeer:
    """The local end, on the event loop throughout."""

    def __init__(self, speaking: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._speaking = speaking
        self._waiting: asyncio.Future[None] | None = None

    async def round_trip(self, payload: str) -> None:
        """Notify, and wait for the echo."""
        self._waiting = asyncio.get_running_loop().create_future()
        await notify(self._speaking, THERE, payload)
        await self._waiting

    def receive(self, *_: object) -> None:
        """The listener."""
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


async def notify(speaking: "asyncpg.Connection[asyncpg.Record]", channel: str, payload: object) -> None:
    """Send one notification, in its own transaction."""
    await speaking.execute(_NOTIFY, channel, payload)


@asynccontextmanager
async def notify_peer(address: str) -> AsyncIterator[NotifyPeer]:
    """Use two connections, as in a node: a connection that is busy sending receives nothing meanwhile."""
    async with connected(address) as speaking, connected(address) as listening:
        peer = NotifyPeer(speaking)
        await listening.add_listener(BACK, peer.receive)
        yield peer
