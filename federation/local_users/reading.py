"""Reads rooms: state, events, relations, and the timeline page by page."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from federation.events import EventId, Pdu
from federation.events.room_event import Context, Page, RoomEvent, is_visible_to_user, to_room_event
from federation.local_users.operations import MEMBER, Operations
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.identifiers import is_event_id
from federation.rooms.ports import State
from federation.rooms.read import HISTORY_VISIBILITY
from storage.rooms.events import END, START, HistoryPosition, fetch_page, fetch_relations

MAX_NUMBER = 2**63 - 1


def encode_token(depth: int, origin_server_ts: int, event_id: str) -> str:
    return f"{depth}_{origin_server_ts}_{event_id}"


def decode_token(token: str) -> tuple[int, int, str]:
    """Parse the token of a page. Raises MatrixError if it is invalid."""
    depth, _, rest = token.partition("_")
    ts, _, event_id = rest.partition("_")
    if not is_event_id(event_id) or not _is_number(depth) or not _is_number(ts):
        raise MatrixError("M_INVALID_PARAM", "The pagination token is invalid.", 400)
    return int(depth), int(ts), event_id


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= 19 and int(digits) <= MAX_NUMBER


MAX_LIMIT: Final = 1_000
MAX_SERVERS: Final = 3
"""From how many servers history is requested, one after the other."""
MAX_HISTORY_REQUESTS: Final = 10
"""How many requests for history are made for one page: a server returns about a hundred events at once."""


class ReadOperations(Operations):
    async def state(self, room_id: str, type_: str | None = None) -> list[RoomEvent]:
        await self._room(room_id)
        state = await self._services.graph.current_state(room_id)
        ids = [event_id for key, event_id in state.items() if type_ is None or key[0] == type_]
        return await self._visible_events(room_id, ids, None)

    async def state_event(self, room_id: str, type_: str, state_key: str = "") -> RoomEvent | None:
        entry = await self._current_event(room_id, (type_, state_key))
        return None if entry is None else (await self._visible_events(room_id, [entry.event_id], None))[0]

    async def event(self, room_id: str, event_id: str, *, reader: str | None = None) -> RoomEvent | None:
        known = (await self._services.graph.known_events([event_id])).get(event_id)
        if known is None or known.verdict != "accepted" or known.is_outlier:
            return None
        return next(iter(await self._visible_events(room_id, [event_id], reader)), None)

    async def messages(
        self,
        room_id: str,
        *,
        start: str | None = None,
        backwards: bool = True,
        limit: int = 50,
        reader: str | None = None,
    ) -> Page:
        await self._room(room_id)
        if start is None:
            spot = END if backwards else START
        else:
            depth, ts, event_id = decode_token(start)
            spot = HistoryPosition(event_id, depth, ts)
        limit = max(1, min(limit, MAX_LIMIT))
        spots = await self._page(room_id, spot, limit, backwards=backwards)
        for _ in range(MAX_HISTORY_REQUESTS if backwards else 0):
            if len(spots) == limit or not await self._fetch_history(room_id, limit):
                break
            spots = await self._page(room_id, spot, limit, backwards=backwards)
        return await self._shown_page(room_id, spots, limit, reader)

    async def relations(
        self, room_id: str, event_id: str, rel_type: str | None = None, *, limit: int = 100, reader: str | None = None
    ) -> list[RoomEvent]:
        if "\0" in room_id or "\0" in event_id or (rel_type is not None and "\0" in rel_type):
            return []  # no identifier has a NUL, and Postgres does not store one
        limit = max(1, min(limit, MAX_LIMIT))
        # A redaction removes the relation from the content. Redacted events are found only after loading;
        # if there are some, more events are loaded to fill the limit.
        for batch in (limit, MAX_LIMIT):
            async with self._services.database.transaction(readonly=True) as connection:
                ids = await fetch_relations(connection, room_id, event_id, rel_type, batch)
            related = [event for event in await self._visible_events(room_id, ids, reader) if not event.is_redacted]
            if len(related) >= limit or len(ids) < batch:
                break
        return related[:limit]

    async def context(
        self, room_id: str, event_id: str, *, limit: int = 10, reader: str | None = None
    ) -> Context | None:
        event = await self.event(room_id, event_id, reader=reader)
        if event is None:
            return None
        pdu = (await self._services.graph.events([event_id]))[event_id]
        spot = HistoryPosition(event_id, pdu.depth, pdu.origin_server_ts)
        limit = max(1, min(limit, MAX_LIMIT))
        before, after = [
            await self._shown_page(room_id, await self._page(room_id, spot, limit, backwards=backwards), limit, reader)
            for backwards in (True, False)
        ]
        return Context(event, before, after)

    # -- inside --

    async def _page(
        self, room_id: str, start: HistoryPosition, limit: int, *, backwards: bool
    ) -> list[HistoryPosition]:
        async with self._services.database.transaction(readonly=True) as connection:
            return await fetch_page(connection, room_id, start, limit, backwards=backwards)

    async def _shown_page(self, room_id: str, spots: Sequence[HistoryPosition], limit: int, reader: str | None) -> Page:
        events = await self._visible_events(room_id, [spot.event_id for spot in spots], reader)
        last = spots[-1] if len(spots) == limit else None
        return Page(events, last and encode_token(last.depth, last.origin_server_ts, last.event_id))

    async def _fetch_history(self, room_id: str, limit: int) -> bool:
        """Fetch earlier events from one of the room's servers. Return whether there were any."""
        graph, own_name = self._services.graph, self._services.server_name
        servers = sorted(await graph.servers_in_room(room_id) - {own_name})
        for server in islice(servers, MAX_SERVERS):
            try:
                if await graph.fetch_history(server, room_id, limit):
                    return True
            except PeerError:
                continue
        return False

    async def _visible_events(self, room_id: str, event_ids: Sequence[EventId], reader: str | None) -> list[RoomEvent]:
        """Return those events that belong to the room and that the reader may see, in the given order."""
        known = await self._services.graph.events(event_ids)
        pdus = [known[one] for one in event_ids if one in known and known[one].room_id == room_id]
        if not pdus:
            return []
        version = (await self._room(room_id)).version
        if reader is not None:
            is_joined = await self._membership_in(room_id, reader) == "join"
            pdus = [pdu for pdu in pdus if await self._may_see(reader, pdu, is_joined_now=is_joined)]
        redacted = await self._services.graph.apply_redactions(pdus)
        return [to_room_event(current, original, version) for current, original in zip(redacted, pdus, strict=True)]

    async def _may_see(self, reader: str, pdu: Pdu, *, is_joined_now: bool) -> bool:
        """Check the state before the event and the state after it: an event that changes the visibility or
        the reader's membership is visible if either state allows it."""
        graph = self._services.graph
        for state in (await graph.state_at(pdu.event_id), await graph.state_after(pdu.event_id)):
            # An outlier is part of a state, and state is visible to the reader.
            if state is None or await self._may_see_with(reader, state, is_joined_now=is_joined_now):
                return True
        return False

    async def _may_see_with(self, reader: str, state: State, *, is_joined_now: bool) -> bool:
        ids = {key: state[key] for key in (HISTORY_VISIBILITY, (MEMBER, reader)) if key in state}
        events = await self._services.graph.events(ids.values())
        contents: Mapping[object, Mapping[str, Any]] = {key: events[event_id].content for key, event_id in ids.items()}
        membership = contents.get((MEMBER, reader), {}).get("membership")
        return is_visible_to_user(contents.get(HISTORY_VISIBILITY), membership, is_joined_now=is_joined_now)
