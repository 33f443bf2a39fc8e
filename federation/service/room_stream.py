"""The durable stream of everything taken in: read from a cursor, and woken when there is more.

A cursor is a position. Whoever keeps it in the same transaction with what it has made of the entries neither
loses nor repeats one, whatever is killed when.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter

from federation.canonical_json import decode
from federation.pdu import Pdu, view
from federation.room_version import ROOM_VERSIONS
from federation.service.followed_stream import FollowedStream, Read
from federation.service.room_store import RoomStore
from federation.stripped_state import Stripped
from storage import room_stream
from storage.database import Database
from storage.outside_memberships import OutsideMembership, fetch_by_events
from storage.room_stream import Kind, StreamRow


@dataclass(frozen=True, slots=True)
class StreamEntry:
    """`kind`: `timeline` is new; `state` was known and is now current; `unset` was current and is no more;
    `invite` is one into a room that this server is not in, with what is shown of the room."""

    position: int
    kind: Kind
    pdu: Pdu
    invite_state: tuple[Stripped, ...] = ()


class RoomStream(FollowedStream[StreamEntry, Pdu]):
    """Of this node's own rooms."""

    def __init__(self, database: Database, store: RoomStore) -> None:
        super().__init__(database, attrgetter("pdu"), lambda entry: len(entry.pdu.canonical))
        self._store = store

    def wake(self, rows: Sequence[StreamRow] = (), is_whole: bool = False) -> None:
        """Something was committed here: these entries, or some that nobody has counted. `is_whole`: no
        redaction asks for any of them."""
        if not rows or not self._hand_on(self._remembered(rows), rows[-1].position, is_whole):
            self._wake_readers()
        self._notices.tell()

    async def read(self, after: int, limit: int = 100) -> Sequence[StreamEntry]:
        """What follows a position, as the database has it; nothing, when all has been read."""
        return (await self._read_on(after, limit)).entries

    def _remembered(self, rows: Sequence[StreamRow]) -> Iterator[StreamEntry]:
        """As far as all of them are."""
        for row in rows:
            known = self._store.remembered_event(row.event_id)
            if known is None:
                return
            yield StreamEntry(row.position, row.kind, known.pdu)

    def _is_looked_up(self, entry: StreamEntry) -> bool:
        """Whether an invite still stands, everybody looks up for himself."""
        return entry.kind == "invite"

    async def _read_on(self, after: int, limit: int) -> Read[StreamEntry]:
        while True:
            rows = await self._database.look(partial(room_stream.read, after=after, limit=limit))
            entries = await self._entries(rows)
            if entries or not rows:
                return Read(entries, rows[-1].position if rows else after, len(rows) < limit)
            after = rows[-1].position

    async def _entries(self, rows: Sequence[StreamRow]) -> list[StreamEntry]:
        invites = [(row.room_id, row.event_id) for row in rows if row.kind == "invite"]
        standing: dict[str, OutsideMembership] = {}
        if invites:
            standing = await self._database.look(lambda connection: fetch_by_events(connection, invites))
        events = await self._store.events([row.event_id for row in rows if row.kind != "invite"])
        return [
            StreamEntry(row.position, row.kind, events[row.event_id].pdu)
            if row.kind != "invite"
            else _invite(row.position, standing[row.event_id])
            for row in rows
            if row.kind != "invite" or row.event_id in standing
        ]


def _invite(position: int, invite: OutsideMembership) -> StreamEntry:
    pdu = view(decode(invite.event), invite.event, invite.event_id, ROOM_VERSIONS[invite.version])
    return StreamEntry(position, "invite", pdu, tuple(decode(invite.stripped_state)))
