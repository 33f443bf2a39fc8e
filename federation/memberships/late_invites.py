"""Invites into rooms that this server is in, but which it might not receive with the room's events.

A server first requests this server's signature on an invite, and then sends the invite to all servers that
were in the room when it was created. If this server was joining at that time, it is not among them, and would
receive the invite only once another event follows it.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final

from federation.matrix.errors import MatrixError, PeerError
from federation.rooms.engine import RoomGraph
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost

DELAY: Final = 2.0
"""Seconds after which the invite should have arrived with the room's events, so that nothing is left to
do."""
MAX_PENDING: Final = 1_000
"""Invites that are pending at the same time. Further ones arrive when another event follows them."""


class LateInvites:
    """Receives signed invites after a delay."""

    def __init__(self, rooms: RoomGraph, *, delay: float = DELAY) -> None:
        self._rooms = rooms
        self._delay = delay
        self._pending = BackgroundTasks(limit=MAX_PENDING)

    def schedule(self, origin: str, event: Mapping[str, Any]) -> None:
        """Receive a signed invite after the delay. Returns immediately."""
        self._pending.spawn("late invite", self._receive(origin, event))

    async def close(self) -> None:
        await self._pending.close()

    async def _receive(self, origin: str, event: Mapping[str, Any]) -> None:
        """Receive the invite as if its server had sent it; this has no effect if it was received already."""
        await asyncio.sleep(self._delay)
        with contextlib.suppress(MatrixError, PeerError, ConnectionLost):
            await self._rooms.receive(origin, [event])
