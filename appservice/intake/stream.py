"""The stream of events that the homeserver pushes. They have their own table, `appservice_events`, which is
pruned behind its readers."""

from functools import partial

from appservice.intake.received_event import from_bytes
from federation.events.room_event import StreamedEvent
from federation.stream.event_stream import EventStream, StreamPage
from storage.appservice import events as appservice_events
from storage.appservice.events import StoredEvent
from storage.rooms import stream as room_stream
from storage.rooms.stream import StreamRow


class IntakeStream(EventStream):
    async def read(self, after: int, limit: int = 100) -> StreamPage:
        rows = await self._database.read(partial(room_stream.read, after=after, limit=limit))
        if not rows:
            return StreamPage([], after)
        event_ids = [row.event_id for row in rows]
        stored = await self._database.read(lambda connection: appservice_events.fetch_events(connection, event_ids))
        entries = [_entry(row, stored[row.event_id]) for row in rows if row.event_id in stored]
        found = [entry for entry in entries if entry is not None]
        return StreamPage(found, rows[-1].position, len(rows) < limit)


def _entry(row: StreamRow, stored: StoredEvent) -> StreamedEvent | None:
    if row.kind == "invite" and stored.is_superseded:
        return None
    received = from_bytes(stored.event, is_redacted=stored.is_redacted)
    return StreamedEvent(row.position, row.kind, received.event, received.invite_state)
