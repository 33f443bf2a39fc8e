"""Invites into rooms that are here, of which this server might hear no more.

A server asks this one to sign an invite, and then sends it with the room's other events to all servers that
were in the room when it was made. Was this one just coming in, it is not among them, and would see the invite
once somebody says something that follows it.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final

from federation.matrix.errors import MatrixError, PeerError
from federation.rooms.engine import RoomGraph
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost

PAUSE: Final = 2.0
"""Seconds in which it should have come with the other events: then there is nothing to be done."""
MOST: Final = 1_000
"""That are waited for at the same time. Others come when something follows them."""


class LateInvites:
    def __init__(self, rooms: RoomGraph, *, pause: float = PAUSE) -> None:
        self._rooms = rooms
        self._pause = pause
        self._waiting = BackgroundTasks(limit=MOST)

    def signed(self, origin: str, event: Mapping[str, Any]) -> None:
        """An invite into a room that is here; returns at once."""
        self._waiting.spawn("late invite", self._receive(origin, event))

    async def close(self) -> None:
        await self._waiting.close()

    async def _receive(self, origin: str, event: Mapping[str, Any]) -> None:
        """As if its server had sent it, which changes nothing if it has."""
        await asyncio.sleep(self._pause)
        with contextlib.suppress(MatrixError, PeerError, ConnectionLost):
            await self._rooms.receive(origin, [event])
