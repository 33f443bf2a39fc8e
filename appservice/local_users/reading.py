"""Reads rooms for a reader: current state from the database, history from the homeserver as a ghost in the
room."""

import json
from collections.abc import Sequence
from typing import Final

from cachetools import LRUCache
from mautrix.api import Path

from appservice.intake.received_event import MEMBER
from appservice.local_users.lookups import (
    MAX_AT_ONCE,
    MAX_FETCHES,
    RoomViewing,
    TimelineEvent,
    Viewer,
    Visibility,
    check_pagination_token,
    is_hidden,
    is_pagination_token,
    is_requestable,
    parse_events,
    sees_everything,
    visibility_for,
    visible_events,
)
from appservice.local_users.parts import Parts, unknown_room
from federation.events.room_event import Context, Page, RoomEvent
from federation.matrix.errors import MatrixError
from federation.matrix.message_content import relations_of
from federation.rooms.read import HISTORY_VISIBILITY

REPLY: Final = "m.in_reply_to"
MAX_SCANNED_EVENTS: Final = 1_000
"""Number of following events in which replies are searched: a homeserver has no index of them."""
MAX_NAME: Final = 255
MAX_VISIBILITIES: Final = 1_000
_VISIBILITY_FILTER: Final = json.dumps({"types": [MEMBER, HISTORY_VISIBILITY[0]]})


class Reading(RoomViewing):
    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        # By the id of the history visibility event.
        self._visibilities: LRUCache[str, TimelineEvent] = LRUCache(MAX_VISIBILITIES)

    async def state(self, room_id: str, type_: str | None = None) -> list[RoomEvent]:
        return await self._parts.rooms.state(room_id, type_)

    async def state_event(self, room_id: str, type_: str, state_key: str = "") -> RoomEvent | None:
        return await self._parts.rooms.state_event(room_id, type_, state_key)

    async def event(self, room_id: str, event_id: str, *, reader: str | None = None) -> RoomEvent | None:
        viewer = await self._viewer(room_id, reader)
        if viewer is None or not is_requestable(event_id):
            return None
        found = await self._fetch_event(room_id, event_id, viewer)
        return None if found is None else next(iter(await self._filter_visible(room_id, viewer, [found])), None)

    async def messages(
        self,
        room_id: str,
        *,
        start: str | None = None,
        backwards: bool = True,
        limit: int = 50,
        reader: str | None = None,
    ) -> Page:
        if start is not None:
            check_pagination_token(start)
        viewer = await self._viewer(room_id, reader)
        if viewer is None:
            raise unknown_room()
        limit = max(1, min(limit, MAX_AT_ONCE))
        events, token = await self._fetch_events(room_id, viewer, start, limit, backwards=backwards)
        return Page(await self._filter_contiguous(room_id, viewer, events, backwards=backwards), token)

    async def relations(
        self, room_id: str, event_id: str, rel_type: str | None = None, *, limit: int = 100, reader: str | None = None
    ) -> list[RoomEvent]:
        viewer = await self._viewer(room_id, reader)
        if viewer is None or not is_requestable(event_id) or (rel_type is not None and not _is_name(rel_type)):
            return []
        limit = max(1, min(limit, MAX_AT_ONCE))
        near: list[TimelineEvent] = []
        if rel_type in {None, REPLY}:
            near = await self._replies(room_id, event_id, viewer, of_all_kinds=rel_type is None)
        if rel_type != REPLY and len(near) < limit:
            known = {one.event.event_id for one in near}
            listed = await self._related(room_id, event_id, rel_type, viewer, limit)
            # Events outside the scanned part come after it.
            near += [one for one in listed if one.event.event_id not in known]
        related = [one for one in near if not one.event.is_redacted]
        return (await self._filter_visible(room_id, viewer, related))[:limit]

    async def context(
        self, room_id: str, event_id: str, *, limit: int = 10, reader: str | None = None
    ) -> Context | None:
        viewer = await self._viewer(room_id, reader)
        if viewer is None or not is_requestable(event_id):
            return None
        limit = max(1, min(limit, MAX_AT_ONCE))
        # "limit: The maximum number of context events to return", half of them on each side.
        answer = await self._fetch_context(room_id, event_id, viewer, {"limit": str(2 * limit)})
        if answer is None:
            return None
        named = [answer.get("event")]
        event = parse_events(named, room_id)
        if not event or event[0].event.event_id != event_id:
            return None
        seen = await self._filter_visible(room_id, viewer, event)
        if not seen:
            return None
        pages = []
        for name, token_name, backwards in (("events_before", "start", True), ("events_after", "end", False)):
            events, token = parse_events(answer.get(name), room_id), answer.get(token_name)
            visible = await self._filter_contiguous(room_id, viewer, events, backwards=backwards)
            is_more = len(events) >= limit and isinstance(token, str)
            pages.append(Page(visible, str(token) if is_more else None))
        return Context(seen[0], *pages)

    # -- relations --

    async def _related(
        self, room_id: str, event_id: str, rel_type: str | None, viewer: Viewer, limit: int
    ) -> list[TimelineEvent]:
        path = Path.v1.rooms[room_id].relations[event_id]
        events: list[TimelineEvent] = []
        query = {"dir": "f", "limit": str(limit)}
        for _ in range(MAX_FETCHES):
            try:
                answer = await self._request(path if rel_type is None else path[rel_type], viewer, query)
            except MatrixError as refused:
                if not is_hidden(refused):
                    raise
                break
            events += parse_events(answer.get("chunk"), room_id)
            after = answer.get("next_batch")
            if len(events) >= limit or not isinstance(after, str) or not is_pagination_token(after):
                break
            query["from"] = after
        return events

    async def _replies(self, room_id: str, event_id: str, viewer: Viewer, *, of_all_kinds: bool) -> list[TimelineEvent]:
        """Return replies among the following events, and with `of_all_kinds` every other relation to the
        event."""
        around = await self._fetch_context(room_id, event_id, viewer, {"limit": "0"})
        after = None if around is None else around.get("end")
        if not isinstance(after, str) or not is_pagination_token(after):
            return []
        events, _ = await self._fetch_events(room_id, viewer, after, MAX_SCANNED_EVENTS, backwards=False)
        return [
            one
            for one in events
            if any(
                target == event_id and (of_all_kinds or kind == REPLY)
                for kind, target in relations_of(one.event.content)
            )
        ]

    # -- visibility for the reader --

    async def _filter_visible(self, room_id: str, viewer: Viewer, events: Sequence[TimelineEvent]) -> list[RoomEvent]:
        """Return the events that the reader may see, wherever they are in the timeline."""
        if viewer.reader is None or not events or await self._reader_sees_everything(room_id, viewer, viewer.reader):
            return [one.event for one in events]
        seen = []
        for one in events:
            seen += await self._filter_by_history(room_id, viewer, viewer.reader, [one])
        return seen

    async def _filter_contiguous(
        self, room_id: str, viewer: Viewer, events: Sequence[TimelineEvent], *, backwards: bool
    ) -> list[RoomEvent]:
        """The same for a contiguous part of the timeline."""
        if viewer.reader is None or not events or await self._reader_sees_everything(room_id, viewer, viewer.reader):
            return [one.event for one in events]
        newest_first = list(events if backwards else reversed(events))
        seen = await self._filter_by_history(room_id, viewer, viewer.reader, newest_first)
        return seen if backwards else seen[::-1]

    async def _filter_by_history(
        self, room_id: str, viewer: Viewer, reader: str, newest_first: Sequence[TimelineEvent]
    ) -> list[RoomEvent]:
        newest = newest_first[0].event
        around = await self._fetch_context(
            room_id, newest.event_id, viewer, {"limit": "0", "filter": _VISIBILITY_FILTER}
        )
        if around is None:
            return []
        # "state: The state of the room at the last event returned": after it.
        after = [one.event for one in parse_events(around.get("state"), room_id)]
        return visible_events(
            reader,
            newest_first,
            visibility_for(reader, after),
            is_joined_now=await self._parts.rooms.membership(room_id, reader) == "join",
        )

    async def _reader_sees_everything(self, room_id: str, viewer: Viewer, reader: str) -> bool:
        """True for most readers, so that events need not be examined."""
        rooms = self._parts.rooms
        now = Visibility(None, await rooms.membership(room_id, reader))
        event = await rooms.state_event(room_id, *HISTORY_VISIBILITY)
        if event is None:
            return sees_everything(now, None)
        events = self._visibilities.get(event.event_id)
        if events is None:
            # `/context` returns `prev_content`, which a homeserver may omit in `/event`.
            around = await self._fetch_context(
                room_id, event.event_id, viewer, {"limit": "0", "filter": _VISIBILITY_FILTER}
            )
            found = [] if around is None else parse_events([around.get("event")], room_id)
            if not found:
                return False
            events = found[0]
            self._visibilities[event.event_id] = events
        return sees_everything(now, events)


def _is_name(rel_type: str) -> bool:
    return 0 < len(rel_type) <= MAX_NAME and rel_type.isprintable()
