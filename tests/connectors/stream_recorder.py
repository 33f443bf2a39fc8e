"""Records everything that a backend's stream yields, for tests that wait for an event."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bridge.matrix.backend import MatrixBackend
from federation.events.room_event import RoomEvent, StreamedEvent
from storage.database import Database

TIMEOUT = 60.0
NAME = "recorder"


@dataclass
class StreamRecorder:
    side: MatrixBackend
    database: Database
    entries: list[StreamedEvent] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> None:
        """Runs until it is cancelled."""
        async with self.side.subscription(NAME) as subscription:
            while True:
                entries = await subscription.next()
                self.entries += entries
                self._changed.set()
                async with self.database.transaction() as connection:
                    await subscription.advance(connection, entries[-1].position)

    async def until(self, condition: Callable[[RoomEvent], object]) -> StreamedEvent:
        """The first matching event, past or future."""
        at = 0
        async with asyncio.timeout(TIMEOUT):
            while True:
                self._changed.clear()
                for entry in self.entries[at:]:
                    at += 1
                    if condition(entry.event):
                        return entry
                await self._changed.wait()

    async def until_so(self, condition: Callable[[], Awaitable[object]]) -> None:
        """Checked again after each event."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                self._changed.clear()
                if await condition():
                    return
                await self._changed.wait()
