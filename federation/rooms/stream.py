"""The event stream of this homeserver's rooms."""

from collections.abc import Sequence
from functools import partial

from federation.events import make_pdu
from federation.events.room_event import StreamedEvent, to_room_event
from federation.matrix.canonical_json import decode
from federation.matrix.room_version import DEFAULT_ROOM_VERSION, ROOM_VERSIONS
from federation.rooms.read import RoomReader
from federation.rooms.store import RoomStore
from federation.stream.event_stream import EventStream, StreamPage
from storage.database import Database
from storage.rooms import stream as room_stream
from storage.rooms.outside_memberships import OutsideMembership, fetch_by_events
from storage.rooms.stream import StreamRow

_REDACTION = "m.room.redaction"


class RoomStream(EventStream):
    """The event stream of this homeserver's rooms, read from `RoomStore`."""

    def __init__(self, database: Database, store: RoomStore) -> None:
        super().__init__(database)
        self._store = store
        self._reader = RoomReader(store)

    def wake(self, rows: Sequence[StreamRow] = (), is_unredacted: bool = False) -> None:
        """Publish entries that this process has committed. Without rows, readers read the database.
        `is_unredacted`: no redaction applies to any of them."""
        known = [self._store.cached_event(row.event_id) for row in rows] if is_unredacted else []
        if None in known:
            known = []
        # The room version matters only for redactions, and the stream does not publish those from the cache.
        self.publish(
            StreamedEvent(row.position, row.kind, to_room_event(event.pdu, event.pdu, DEFAULT_ROOM_VERSION))
            for row, event in zip(rows, known, strict=False)
            if event is not None
        )

    async def read(self, after: int, limit: int = 100) -> StreamPage:
        while True:
            rows = await self._database.read(partial(room_stream.read, after=after, limit=limit))
            entries = await self._entries(rows)
            if entries or not rows:
                return StreamPage(entries, rows[-1].position if rows else after, len(rows) < limit)
            after = rows[-1].position

    async def _entries(self, rows: Sequence[StreamRow]) -> list[StreamedEvent]:
        invites = [(row.room_id, row.event_id) for row in rows if row.kind == "invite"]
        open_invites: dict[str, OutsideMembership] = {}
        if invites:
            open_invites = await self._database.read(lambda connection: fetch_by_events(connection, invites))
        events = await self._store.events([row.event_id for row in rows if row.kind != "invite"])
        pdus = [event.pdu for event in events.values()]
        shown = {pdu.event_id: pdu for pdu in await self._reader.apply_redactions(pdus)}
        entries = []
        for row in rows:
            if row.kind != "invite":
                pdu = events[row.event_id].pdu
                version = DEFAULT_ROOM_VERSION
                if pdu.type == _REDACTION:
                    version = await self._store.version(row.room_id)
                event = to_room_event(shown[row.event_id], pdu, version)
                entries.append(StreamedEvent(row.position, row.kind, event))
            elif row.event_id in open_invites:
                entries.append(_invite(row.position, open_invites[row.event_id]))
        return entries


def _invite(position: int, invite: OutsideMembership) -> StreamedEvent:
    version = ROOM_VERSIONS[invite.version]
    pdu = make_pdu(decode(invite.event), invite.event, invite.event_id, version)
    return StreamedEvent(position, "invite", to_room_event(pdu, pdu, version), tuple(decode(invite.stripped_state)))
