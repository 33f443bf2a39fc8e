"""A stream of numbers, of which a test says when they are written."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from federation.room_event import RoomEvent, StreamedEvent, Wanted, everything
from federation.service.followed_stream import FollowedStream, Read
from federation.service.stream_subscription import StreamSubscription
from storage.database import Database


@dataclass(frozen=True, slots=True)
class Number:
    position: int
    event: RoomEvent


def number(position: int, type_: str = "m.room.message") -> Number:
    return Number(position, RoomEvent(f"${position}", "!room:here", "@a:here", type_, {}, 0, None, None))


class Numbers(FollowedStream[Number, RoomEvent]):
    """`written` is what the database would have; `looks` counts how often it was asked."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, attrgetter("event"), lambda one: 1)
        self.written: list[Number] = []
        self.looks = 0

    def commit(self, *added: Number, elsewhere: bool = False) -> None:
        self.written += added
        if not elsewhere and not self._hand_on(added, added[-1].position, is_whole=True):
            self._wake_readers()

    async def _read_on(self, after: int, limit: int) -> Read[Number]:
        self.looks += 1
        found = [one for one in self.written if one.position > after][:limit]
        return Read(found, found[-1].position if found else after, len(found) < limit)

    def _is_looked_up(self, entry: Number) -> bool:
        return entry.event.type == "m.room.redaction"


class Reading(StreamSubscription[Number]):
    def __init__(
        self, name: str, term: int, database: Database, stream: Numbers, wanted: Wanted = everything
    ) -> None:
        super().__init__(name, term, database)
        self._stream = stream
        self._wanted = wanted

    async def _follow(self, after: int, limit: int, patience: int) -> Read[Number]:
        return await self._stream.follow(after, limit, self._wanted, patience)

    async def _seen(self, read: Read[Number]) -> list[StreamedEvent]:
        return [StreamedEvent(one.position, "timeline", one.event) for one in read.entries]


def positions(found: Sequence[Number | StreamedEvent]) -> list[int]:
    return [one.position for one in found]
