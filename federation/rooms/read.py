"""Reads rooms: their state, their event graph, and what other servers may see of it.

Server-server API, and client-server API, "Room History Visibility".
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from cachetools import LRUCache

from federation.auth_rules.auth_event_selection import POWER_LEVELS
from federation.auth_rules.check import is_redaction_allowed
from federation.client.peer_events import StateIds
from federation.events import CREATE, EventId, Pdu, StateKey, create_event_id, redact_pdu
from federation.events.graph import WalkResult, walk_backwards, walk_missing_events
from federation.matrix.identifiers import domain
from federation.rooms.ports import RoomView, State
from federation.rooms.receive_checks import KnownEvent
from federation.rooms.server_acl import ServerAcl
from federation.rooms.store import RoomStore
from federation.state_resolution.state_groups import StateGroup
from storage.rooms.events import (
    Direction,
    GraphEntry,
    fetch_ancestors,
    fetch_graph_entries,
    fetch_redactions,
    find_nearest,
)

HISTORY_VISIBILITY: Final[StateKey] = ("m.room.history_visibility", "")

_ENOUGH: Final[Mapping[object, frozenset[str]]] = {
    "invited": frozenset({"invite", "join"}),
    "joined": frozenset({"join"}),
}


def memberships_that_see(content: Mapping[str, Any] | None) -> frozenset[str] | None:
    """The memberships at the time of an event with which a server may see it; None if any membership
    suffices.

    With `world_readable` and `shared` every server that is in the room today may see the event, and other
    servers cannot request it. "If the value is not understood, or there is no such event, it is `shared`."
    """
    value = None if content is None else content.get("history_visibility")
    return _ENOUGH.get(value) if isinstance(value, str) else None


def membership_events_of(server: str, state: Mapping[StateKey, EventId]) -> list[EventId]:
    """The membership events of a server's users."""
    return [
        event_id
        for (type_, state_key), event_id in state.items()
        if type_ == "m.room.member" and domain(state_key) == server
    ]


def can_see(enough: Collection[str] | None, memberships: Collection[object]) -> bool:
    """Whether one of the memberships suffices."""
    return enough is None or any(isinstance(one, str) and one in enough for one in memberships)


ANCESTORS_AT_ONCE: Final = 200
MAX_VISIBILITIES: Final = 10_000
MAX_CHAINS: Final = 100


class RoomReader:
    """Reads rooms, and never writes to them."""

    def __init__(self, store: RoomStore) -> None:
        self._store = store
        self._visibilities: LRUCache[tuple[int, str], tuple[bool]] = LRUCache(MAX_VISIBILITIES)
        self._chains: LRUCache[int, frozenset[EventId]] = LRUCache(MAX_CHAINS)

    async def room(self, room_id: str) -> RoomView | None:
        room = (await self._store.rooms([room_id])).get(room_id)
        return None if room is None else room.view

    async def known_events(self, event_ids: Iterable[EventId]) -> dict[EventId, KnownEvent]:
        """Those events that are known, with their verdicts and the state groups before and after them."""
        return await self._store.events(event_ids, refresh_outliers=True)

    async def events(self, event_ids: Iterable[EventId]) -> dict[EventId, Pdu]:
        """Those events that are known, including rejected ones."""
        return {event_id: event.pdu for event_id, event in (await self._store.events(event_ids)).items()}

    # -- states --

    async def state_at(self, event_id: EventId) -> State | None:
        """The state before an event; None if it is unknown."""
        event = (await self.known_events([event_id])).get(event_id)
        return None if event is None else await self._state(event.state_before)

    async def state_after(self, event_id: EventId) -> State | None:
        event = (await self.known_events([event_id])).get(event_id)
        return None if event is None else await self._state(event.state_after)

    async def _state(self, group_id: int | None) -> State | None:
        return None if group_id is None else (await self._store.group(group_id)).state

    async def current_state(self, room_id: str) -> State:
        group = await self._current(room_id)
        return {} if group is None else group.state

    async def current_events(self, room_id: str, keys: Iterable[StateKey]) -> dict[StateKey, Pdu]:
        """The events of those keys that the current state has."""
        group = await self._current(room_id)
        if group is None:
            return {}
        wanted = {key: event_id for key in keys if (event_id := group.state.get(key)) is not None}
        events = await self._store.events(wanted.values())
        return {key: events[event_id].pdu for key, event_id in wanted.items()}

    async def acl(self, room_id: str) -> ServerAcl | None:
        """The room's server ACL; None if the room is unknown."""
        room = (await self._store.rooms([room_id])).get(room_id)
        return None if room is None else await self._store.acl(room)

    async def _current(self, room_id: str) -> StateGroup | None:
        view = await self.room(room_id)
        return None if view is None else await self._store.group(view.state_group)

    async def servers_in_room(self, room_id: str) -> frozenset[str]:
        room = (await self._store.rooms([room_id])).get(room_id)
        return frozenset() if room is None else frozenset(room.joined_servers)

    async def is_server_in_room(self, room_id: str, server: str) -> bool:
        return server in await self.servers_in_room(room_id)

    # -- the graph --

    async def auth_chain(self, event_ids: Iterable[EventId]) -> set[EventId]:
        """The auth chain of the events, which contains one of the events themselves only if it is in the
        chain of another. From version 12 on it includes the create event, although no event names it as an
        auth event."""
        start = set(event_ids)
        async with self._store.connection() as connection:
            edges = await self._store.auth_edges(start, connection)
        chain = {auth_event for auth_events in edges.values() for auth_event in auth_events}
        for event in (await self._store.events([*start][:1])).values():
            create = create_event_id(event.pdu.room_id)
            # Before version 12 no event has this id. All of the events are of one room.
            if start != {create} and await self._store.events([create]):
                chain.add(create)
        return chain

    async def state_ids(self, room_id: str, event_id: EventId) -> StateIds | None:
        """The state before an event of the room, and its auth chain. The chain is cached, since under load
        the same one is requested repeatedly."""
        event = (await self.known_events([event_id])).get(event_id)
        if event is None or event.state_before is None or event.pdu.room_id != room_id:
            return None
        state = (await self._store.group(event.state_before)).state
        chain = self._chains.get(event.state_before)
        if chain is None:
            chain = frozenset(await self.auth_chain(state.values()))
            self._chains[event.state_before] = chain
        return StateIds(tuple(state.values()), tuple(chain))

    async def missing_events(
        self, room_id: str, *, earliest: Collection[EventId], latest: Sequence[EventId], limit: int, min_depth: int
    ) -> list[Pdu]:
        """The events between `earliest` and `latest`, oldest first."""
        ancestors = await self._ancestors(room_id, latest)
        walk = walk_missing_events(latest, earliest, ancestors, limit=limit, min_depth=min_depth)
        while await self._load_ancestors(room_id, ancestors, walk):
            walk = walk_missing_events(latest, earliest, ancestors, limit=limit, min_depth=min_depth)
        return await self._in_room(room_id, walk.found)

    async def backfill(self, room_id: str, event_ids: Sequence[EventId], limit: int) -> list[Pdu]:
        """The events and those before them, newest first."""
        ancestors = await self._ancestors(room_id, event_ids)
        walk = walk_backwards(event_ids, ancestors, limit)
        while await self._load_ancestors(room_id, ancestors, walk):
            walk = walk_backwards(event_ids, ancestors, limit)
        return await self._in_room(room_id, walk.found)

    async def nearest_to(self, room_id: str, timestamp: int, direction: Direction) -> tuple[EventId, int] | None:
        """The accepted event nearest to a time in a direction, and its `origin_server_ts`."""
        async with self._store.connection() as connection:
            return await find_nearest(connection, room_id, timestamp, direction)

    async def _ancestors(self, room_id: str, start: Sequence[EventId]) -> dict[EventId, GraphEntry]:
        async with self._store.connection() as connection:
            ancestors = await fetch_ancestors(connection, room_id, start, ANCESTORS_AT_ONCE)
        return {ancestor.event_id: ancestor for ancestor in ancestors}

    async def _load_ancestors(self, room_id: str, ancestors: dict[EventId, GraphEntry], walk: WalkResult) -> bool:
        """Load the ancestors that the walk has not found. Returns whether there were any."""
        if not walk.unknown:
            return False
        async with self._store.connection() as connection:
            found = await fetch_graph_entries(connection, room_id, walk.unknown)
        ancestors.update({ancestor.event_id: ancestor for ancestor in found})
        return bool(found)

    async def _in_room(self, room_id: str, event_ids: Sequence[EventId]) -> list[Pdu]:
        events = await self._store.events(event_ids, refresh_outliers=True)
        return [
            event.pdu
            for event_id in event_ids
            if (event := events.get(event_id)) is not None
            and event.pdu.room_id == room_id
            and event.verdict != "rejected"
        ]

    # -- visibility and redactions --

    async def redact_for_server(self, server: str, pdus: Sequence[Pdu]) -> list[Pdu]:
        """The events, redacted where the server may not see them or where a redaction applies."""
        events = await self.known_events(pdu.event_id for pdu in pdus)
        shown = []
        for pdu in await self.apply_redactions(pdus):
            event = events.get(pdu.event_id)
            if event is not None and not await self._can_see(server, event):
                shown.append(redact_pdu(pdu, await self._store.version(pdu.room_id)))
            else:
                shown.append(pdu)
        return shown

    async def _can_see(self, server: str, event: KnownEvent) -> bool:
        """Whether the server may see the event by the state before it or by the state after it. An event that
        changes the visibility or a membership is visible if either state allows it."""
        groups = {event.state_before, event.state_after} - {None}
        for group_id in groups:
            assert group_id is not None, "None was removed above"
            seen = self._visibilities.get((group_id, server))
            if seen is None:
                seen = (await self._can_see_in(server, await self._store.group(group_id)),)
                self._visibilities[group_id, server] = seen
            if seen[0]:
                return True
        # Outliers are sent only as part of a state, to servers that are in the room.
        return not groups

    async def _can_see_in(self, server: str, group: StateGroup) -> bool:
        visibility = group.state.get(HISTORY_VISIBILITY)
        content = None
        if visibility is not None:
            content = (await self._store.events([visibility]))[visibility].pdu.content
        enough = memberships_that_see(content)
        if enough is None:
            return True
        members = await self._store.events(membership_events_of(server, group.state))
        return can_see(enough, [member.pdu.membership for member in members.values()])

    async def apply_redactions(self, pdus: Sequence[Pdu]) -> list[Pdu]:
        """The events with all redactions applied that are known.

        From room version 3 on a redaction takes effect only once the redacted event is known as well.
        Redactions are therefore looked up when an event is read, and the order in which the two arrive does
        not matter.
        """
        event_ids = [pdu.event_id for pdu in pdus]
        pairs = await self._store.read_outside_transaction(lambda connection: fetch_redactions(connection, event_ids))
        if not pairs:
            return list(pdus)
        redactions = await self._store.events({redaction for _, redaction in pairs}, refresh_outliers=True)
        redactions_of: dict[EventId, list[KnownEvent]] = {}
        for target, redaction in pairs:
            redactions_of.setdefault(target, []).append(redactions[redaction])
        return [await self._redacted(pdu, redactions_of.get(pdu.event_id, ())) for pdu in pdus]

    async def _redacted(self, pdu: Pdu, redactions: Iterable[KnownEvent]) -> Pdu:
        for event in redactions:
            version = await self._store.version(event.pdu.room_id)
            assert event.state_before is not None, "stored redactions are not outliers"
            state = (await self._store.group(event.state_before)).state
            ids = {key: state[key] for key in (CREATE, POWER_LEVELS) if key in state}
            events = await self._store.events(ids.values())
            part = {key: events[event_id].pdu for key, event_id in ids.items()}
            if is_redaction_allowed(event.pdu, pdu, part, version):
                return redact_pdu(pdu, version)
        return pdu
