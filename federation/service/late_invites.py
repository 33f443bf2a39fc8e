"""Invites into rooms that are here, of which this server might hear no more.

A server asks this one to sign an invite, and then sends it with the room's other events to all servers that
were in the room when it was made. Was this one just coming in, it is not among them, and would see the invite
once somebody says something that follows it.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any, Final

from federation.errors import MatrixError, PeerError
from federation.service.room_ports import Rooms
from storage.connecting import ConnectionLost

PAUSE: Final = 2.0
"""Seconds in which it should have come with the other events: then there is nothing to be done."""
MOST: Final = 1_000
"""That are waited for at the same time. Others come when something follows them."""


class LateInvites:
    def __init__(self, rooms: Rooms, *, pause: float = PAUSE) -> None:
        self._rooms = rooms
        self._pause = pause
        self._waiting: set[asyncio.Task[None]] = set()

    def signed(self, origin: str, event: Mapping[str, Any]) -> None:
        """An invite into a room that is here; returns at once."""
        if len(self._waiting) < MOST:
            waiting = asyncio.create_task(self._take_in(origin, event))
            self._waiting.add(waiting)
            waiting.add_done_callback(self._waiting.discard)

    async def close(self) -> None:
        for waiting in self._waiting:
            waiting.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)

    async def _take_in(self, origin: str, event: Mapping[str, Any]) -> None:
        """As if its server had sent it, which changes nothing if it has."""
        await asyncio.sleep(self._pause)
        with contextlib.suppress(MatrixError, PeerError, ConnectionLost):
            await self._rooms.receive(origin, [event])
