"""Reading a durable stream from a cursor that is committed together with what was made of it."""

import time
from abc import ABC, abstractmethod
from functools import partial
from typing import Final, Generic, TypeVar

from federation.room_event import StreamedEvent
from federation.service.followed_stream import Placed, Read
from storage import consumers
from storage.database import Connection, Database

MOST_PASSED: Final = 1_000
"""Places in the stream that may be passed over before the cursor follows."""
CONFIRMED: Final = 1.0
"""Seconds after a commit in which a reader takes itself for the reader. What another one has read meanwhile
is refused at the next commit, as it is when that one comes a moment after having been asked for."""

E = TypeVar("E", bound=Placed)


class StreamSubscription(ABC, Generic[E]):
    """Nothing has been read before `advance` says so; `next` without it gives the same again."""

    def __init__(self, name: str, term: int, database: Database) -> None:
        self._name = name
        self._term = term
        self._database = database
        # Where the cursor is; None when the database has to be asked.
        self._position: int | None = None
        # When Postgres last said that this is the reader.
        self._confirmed = float("-inf")

    @abstractmethod
    async def _follow(self, after: int, limit: int, patience: int) -> Read[E]:
        """What the reader wants of the stream, as `FollowedStream.follow` has it."""

    @abstractmethod
    async def _seen(self, read: Read[E]) -> list[StreamedEvent]:
        """As the reader is given it."""

    async def next(self, limit: int = 100) -> list[StreamedEvent]:
        while True:
            if self._position is None:
                self._position = await self._fetch_position()
            read = await self._follow(self._position, limit, MOST_PASSED)
            if read.entries:
                break
            await self._pass_over(read.upto)
        if time.monotonic() - self._confirmed > CONFIRMED:
            # It may have been a long wait, so that another process may read by now.
            await self._fetch_position()
        return await self._seen(read)

    async def advance(self, connection: Connection, position: int) -> None:
        await consumers.advance(connection, self._name, self._term, position)
        if not self._database.after_commit(connection, partial(self.came_to, position)):
            self._position = None

    def place(self, position: int) -> consumers.Place:
        """For a statement that advances to it by itself; when it has, `came_to` says so."""
        return self._name, self._term, position

    def came_to(self, position: int) -> None:
        self._position = position
        self._confirmed = time.monotonic()

    async def _pass_over(self, position: int) -> None:
        """Now and then, so that a successor need not look at all of it again."""
        async with self._database.statements() as connection:
            await self.advance(connection, position)

    async def _fetch_position(self) -> int:
        """Raises `TakenOver`."""
        position = await self._database.look(
            lambda connection: consumers.fetch_position(connection, self._name, self._term)
        )
        self._confirmed = time.monotonic()
        return position
