"""Reading rooms, for showing them to somebody: what is current from what is kept here, the history from the
homeserver, which shows it to a ghost who is there."""

import json
from collections.abc import Sequence
from typing import Final

from cachetools import LRUCache
from mautrix.api import Path

from appservice.intake.received_event import MEMBER
from appservice.local_users.lookups import (
    MOST_AT_ONCE,
    MOST_FETCHES,
    Looking,
    Sight,
    Told,
    Viewer,
    can_be_asked,
    is_hidden,
    is_place,
    refuse_place,
    sees_everything,
    shown,
    sight,
    told_in,
)
from appservice.local_users.parts import Parts, unknown_room
from federation.events.room_event import Context, Page, RoomEvent
from federation.matrix.errors import MatrixError
from federation.matrix.message_content import relations_of
from federation.rooms.read import HISTORY_VISIBILITY

REPLY: Final = "m.in_reply_to"
MOST_LOOKED_AT: Final = 1_000
"""Events after one, among which answers to it are looked for: of these a homeserver keeps no list."""
LONGEST_NAME: Final = 255
MOST_VISIBILITIES: Final = 1_000
_DECIDES: Final = json.dumps({"types": [MEMBER, HISTORY_VISIBILITY[0]]})


class Reading(Looking):
    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        # By the events that say who sees the history.
        self._visibilities: LRUCache[str, Told] = LRUCache(MOST_VISIBILITIES)

    async def state(self, room_id: str, type_: str | None = None) -> list[RoomEvent]:
        return await self._parts.rooms.state(room_id, type_)

    async def state_event(self, room_id: str, type_: str, state_key: str = "") -> RoomEvent | None:
        return await self._parts.rooms.state_event(room_id, type_, state_key)

    async def event(self, room_id: str, event_id: str, *, reader: str | None = None) -> RoomEvent | None:
        viewer = await self._viewer(room_id, reader)
        if viewer is None or not can_be_asked(event_id):
            return None
        found = await self._one(room_id, event_id, viewer)
        return None if found is None else next(iter(await self._seen(room_id, viewer, [found])), None)

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
            refuse_place(start)
        viewer = await self._viewer(room_id, reader)
        if viewer is None:
            raise unknown_room()
        limit = max(1, min(limit, MOST_AT_ONCE))
        told, place = await self._stretch(room_id, viewer, start, limit, backwards=backwards)
        return Page(await self._seen_in_a_row(room_id, viewer, told, backwards=backwards), place)

    async def relations(
        self,
        room_id: str,
        event_id: str,
        rel_type: str | None = None,
        *,
        limit: int = 100,
        reader: str | None = None,
    ) -> list[RoomEvent]:
        viewer = await self._viewer(room_id, reader)
        if viewer is None or not can_be_asked(event_id) or (rel_type is not None and not _is_name(rel_type)):
            return []
        limit = max(1, min(limit, MOST_AT_ONCE))
        near: list[Told] = []
        if rel_type in {None, REPLY}:
            near = await self._answers(room_id, event_id, viewer, of_all_kinds=rel_type is None)
        if rel_type != REPLY and len(near) < limit:
            known = {told.event.event_id for told in near}
            listed = await self._related(room_id, event_id, rel_type, viewer, limit)
            # What is not among those that follow at once comes after them.
            near += [told for told in listed if told.event.event_id not in known]
        related = [told for told in near if not told.event.is_redacted]
        return (await self._seen(room_id, viewer, related))[:limit]

    async def context(
        self, room_id: str, event_id: str, *, limit: int = 10, reader: str | None = None
    ) -> Context | None:
        viewer = await self._viewer(room_id, reader)
        if viewer is None or not can_be_asked(event_id):
            return None
        limit = max(1, min(limit, MOST_AT_ONCE))
        # "limit: The maximum number of context events to return", half of them on each side.
        answer = await self._around(room_id, event_id, viewer, {"limit": str(2 * limit)})
        if answer is None:
            return None
        named = [answer.get("event")]
        event = told_in(named, room_id)
        if not event or event[0].event.event_id != event_id:
            return None
        seen = await self._seen(room_id, viewer, event)
        if not seen:
            return None
        pages = []
        for name, place, backwards in (("events_before", "start", True), ("events_after", "end", False)):
            told, token = told_in(answer.get(name), room_id), answer.get(place)
            events = await self._seen_in_a_row(room_id, viewer, told, backwards=backwards)
            is_more = len(told) >= limit and isinstance(token, str)
            pages.append(Page(events, str(token) if is_more else None))
        return Context(seen[0], *pages)

    # -- what relates to an event --

    async def _related(
        self, room_id: str, event_id: str, rel_type: str | None, viewer: Viewer, limit: int
    ) -> list[Told]:
        path = Path.v1.rooms[room_id].relations[event_id]
        told: list[Told] = []
        query = {"dir": "f", "limit": str(limit)}
        for _ in range(MOST_FETCHES):
            try:
                answer = await self._ask(path if rel_type is None else path[rel_type], viewer, query)
            except MatrixError as refused:
                if not is_hidden(refused):
                    raise
                break
            told += told_in(answer.get("chunk"), room_id)
            after = answer.get("next_batch")
            if len(told) >= limit or not isinstance(after, str) or not is_place(after):
                break
            query["from"] = after
        return told

    async def _answers(
        self, room_id: str, event_id: str, viewer: Viewer, *, of_all_kinds: bool
    ) -> list[Told]:
        """Answers among what was said next, or whatever else relates to the event as well."""
        around = await self._around(room_id, event_id, viewer, {"limit": "0"})
        after = None if around is None else around.get("end")
        if not isinstance(after, str) or not is_place(after):
            return []
        told, _ = await self._stretch(room_id, viewer, after, MOST_LOOKED_AT, backwards=False)
        return [
            one
            for one in told
            if any(
                target == event_id and (of_all_kinds or kind == REPLY)
                for kind, target in relations_of(one.event.content)
            )
        ]

    # -- what the reader may see --

    async def _seen(self, room_id: str, viewer: Viewer, told: Sequence[Told]) -> list[RoomEvent]:
        """Those that the reader may see, wherever they stand."""
        if viewer.reader is None or not told or await self._sees_everything(room_id, viewer, viewer.reader):
            return [one.event for one in told]
        seen = []
        for one in told:
            seen += await self._seen_from(room_id, viewer, viewer.reader, [one])
        return seen

    async def _seen_in_a_row(
        self, room_id: str, viewer: Viewer, told: Sequence[Told], *, backwards: bool
    ) -> list[RoomEvent]:
        """The same, of events that stand one next to the other."""
        if viewer.reader is None or not told or await self._sees_everything(room_id, viewer, viewer.reader):
            return [one.event for one in told]
        newest_first = list(told if backwards else reversed(told))
        seen = await self._seen_from(room_id, viewer, viewer.reader, newest_first)
        return seen if backwards else seen[::-1]

    async def _seen_from(
        self, room_id: str, viewer: Viewer, reader: str, newest_first: Sequence[Told]
    ) -> list[RoomEvent]:
        newest = newest_first[0].event
        around = await self._around(room_id, newest.event_id, viewer, {"limit": "0", "filter": _DECIDES})
        if around is None:
            return []
        # "state: The state of the room at the last event returned": behind it.
        after = [one.event for one in told_in(around.get("state"), room_id)]
        return shown(
            reader,
            newest_first,
            sight(reader, after),
            is_joined_now=await self._parts.rooms.membership(room_id, reader) == "join",
        )

    async def _sees_everything(self, room_id: str, viewer: Viewer, reader: str) -> bool:
        """As nearly everybody does, so that no event has to be looked at."""
        rooms = self._parts.rooms
        now = Sight(None, await rooms.membership(room_id, reader))
        event = await rooms.state_event(room_id, *HISTORY_VISIBILITY)
        if event is None:
            return sees_everything(now, None)
        told = self._visibilities.get(event.event_id)
        if told is None:
            # Here a homeserver says what stood in its place before, which it need not where an event is
            # asked for alone.
            around = await self._around(room_id, event.event_id, viewer, {"limit": "0", "filter": _DECIDES})
            found = [] if around is None else told_in([around.get("event")], room_id)
            if not found:
                return False
            told = found[0]
            self._visibilities[event.event_id] = told
        return sees_everything(now, told)


def _is_name(rel_type: str) -> bool:
    return 0 < len(rel_type) <= LONGEST_NAME and rel_type.isprintable()
