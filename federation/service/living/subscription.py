"""Reading the stream of this node's own rooms."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from federation.pdu import Pdu
from federation.room_event import Foresees, StreamedEvent, Wanted, as_seen, everything
from federation.room_version import DEFAULT_ROOM_VERSION
from federation.service.consumer_lease import ConsumerLease
from federation.service.followed_stream import Read
from federation.service.room_graph import RoomGraph
from federation.service.room_stream import StreamEntry
from federation.service.stream_subscription import StreamSubscription
from storage import consumers
from storage.database import Database

_REDACTION: Final = "m.room.redaction"


class Subscription(StreamSubscription[StreamEntry]):
    """What is not `wanted` is passed over. `foresees` is shown what this process is just writing."""

    def __init__(
        self,
        name: str,
        term: int,
        database: Database,
        graph: RoomGraph,
        wanted: Wanted = everything,
        foresees: Foresees | None = None,
    ) -> None:
        super().__init__(name, term, database)
        self._graph = graph
        self._wanted = wanted
        self._foresees = foresees
        self._foresee = None if foresees is None else self._show

    async def _follow(self, after: int, limit: int, patience: int) -> Read[StreamEntry]:
        return await self._graph.stream.follow(after, limit, self._wanted, patience, self._foresee)

    def _show(self, pdu: Pdu) -> None:
        """Only messages are foreseen, of which no room version decides how they are read."""
        assert self._foresees is not None, "otherwise nothing is shown"
        self._foresees(as_seen(pdu, pdu, DEFAULT_ROOM_VERSION))

    async def _seen(self, read: Read[StreamEntry]) -> list[StreamedEvent]:
        shown = [entry.pdu for entry in read.entries]
        if not read.is_whole:
            shown = await self._graph.shown_to_people(shown)
        seen = []
        for entry, pdu in zip(read.entries, shown, strict=True):
            # Of nothing else something is read that its room's version decides; of an invite's room it is not
            # known here.
            is_redaction = pdu.type == _REDACTION
            version = await self._graph.version(pdu.room_id) if is_redaction else DEFAULT_ROOM_VERSION
            event = as_seen(pdu, entry.pdu, version)
            seen.append(StreamedEvent(entry.position, entry.kind, event, entry.invite_state))
        return seen


@asynccontextmanager
async def subscribed(
    name: str,
    lease: ConsumerLease,
    database: Database,
    graph: RoomGraph,
    *,
    from_now: bool,
    wanted: Wanted = everything,
    foresees: Foresees | None = None,
) -> AsyncIterator[Subscription]:
    async with lease.held(name):
        beginning = await graph.stream.last_position() if from_now else 0
        async with database.transaction() as connection:
            term = await consumers.take_over(connection, name, beginning)
        yield Subscription(name, term, database, graph, wanted, foresees)
