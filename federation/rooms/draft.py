"""The draft of a room: the changes that a transaction makes to it, in memory.

Events are authorised and inserted one after the other, each against the state that the previous ones have
left. `commit.py` then writes all of them at once.
"""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Self

from federation.auth_rules import required_state
from federation.events import EventId, Pdu, StateKey
from federation.events.graph import forward_extremities
from federation.events.received import Accepted, Dropped, Rejected, Verdict
from federation.matrix.identifiers import domain
from federation.matrix.room_version import RoomVersion
from federation.observer import HomeserverObserver
from federation.rooms.policy_server import POLICY, PolicyServer, parse_policy_server
from federation.rooms.ports import RoomView
from federation.rooms.receive_checks import (
    KnownEvent,
    NeedEvents,
    VerifiedEvent,
    authorise,
    authorise_by_auth_events,
    known_event,
    needed_for_step_4,
)
from federation.rooms.store import CachedRoom, RoomStore
from federation.state_resolution.conflicts import reachable
from federation.state_resolution.resolve import Resolution, resolve
from federation.state_resolution.state_groups import StateGroup, StoredState, choose_storage, state_changes
from storage.database import Connection


class RoomDraft:
    """The changes of one transaction to `room`.

    The caller has locked the room on `connection`, or its statement compares the room's generation. The draft
    does not change `room`, except for its cache of auth events.
    """

    def __init__(
        self,
        store: RoomStore,
        connection: Connection,
        room: CachedRoom,
        observer: HomeserverObserver | None = None,
        *,
        is_new: bool = False,
    ) -> None:
        self.room = room
        self.room_id = room.view.room_id
        self.version = room.view.version
        self.is_new = is_new
        self.extremities = room.view.forward_extremities
        self.known: dict[EventId, KnownEvent] = {}
        self.pdus: dict[EventId, Pdu] = {}
        self.rejected: set[EventId] = set()
        self.written: dict[EventId, KnownEvent] = {}
        self.timeline: list[KnownEvent] = []
        self.destinations: dict[EventId, frozenset[str]] = {}
        # Known events, and the servers that have missed them.
        self.missed: dict[EventId, frozenset[str]] = {}
        self.new_groups: dict[int, tuple[StateGroup, StoredState]] = {}
        self.new_merges: dict[frozenset[int], int] = {}
        self._store = store
        self._connection = connection
        self._searched: set[EventId] = set()
        self._observer = observer
        self._groups: dict[int, StateGroup] = {}
        self._current_id = room.view.state_group
        self._current_of = self.extremities
        self._joined = dict(room.joined_servers)
        self._joined_in = self._current_id

    @classmethod
    async def of_new_room(
        cls,
        store: RoomStore,
        connection: Connection,
        room_id: str,
        version: RoomVersion,
        observer: HomeserverObserver | None = None,
    ) -> Self:
        """The draft of a new, empty room."""
        empty = StateGroup(await store.next_group_id(connection), {})
        view = RoomView(room_id, version, 0, (), empty.id)
        draft = cls(store, connection, CachedRoom(view, {}), observer, is_new=True)
        draft._groups[empty.id] = empty
        draft.new_groups[empty.id] = (empty, StoredState(None, 0, {}))
        return draft

    # -- loading --

    async def load(self, event_ids: Iterable[EventId], *, refresh_outliers: bool = False) -> None:
        """Load those of the events that are known, with one query. `refresh_outliers` is as for
        `RoomStore.events`."""
        wanted = [one for one in event_ids if one not in self.known and one not in self._searched]
        if wanted:
            self.add_loaded(
                wanted, await self._store.events(wanted, self._connection, refresh_outliers=refresh_outliers)
            )

    def add_loaded(self, searched: Iterable[EventId], found: Mapping[EventId, KnownEvent]) -> None:
        """Add events that the caller has looked for under the room's lock, and those of them that it
        found."""
        for event_id in searched:
            self._searched.add(event_id)
            event = found.get(event_id)
            if event is not None and event_id not in self.known:
                self._add_known(event)

    async def group(self, group_id: int) -> StateGroup:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = await self._store.group(group_id, self._connection)
        return group

    def _add_known(self, event: KnownEvent) -> None:
        # A peer may name an event of another room. It has no effect: each use compares the room.
        event_id = event.pdu.event_id
        self.known[event_id] = event
        self.pdus[event_id] = event.pdu
        if event.verdict == "rejected":
            self.rejected.add(event_id)

    def is_in_graph(self, event_id: EventId) -> bool:
        """Whether the event is in this room's graph: known, and not as an outlier."""
        event = self.known.get(event_id)
        return event is not None and not event.is_outlier and event.pdu.room_id == self.room_id

    # -- states --

    async def current(self) -> StateGroup:
        """The state after the forward extremities."""
        if self._current_of != self.extremities:
            self._current_id = (await self.state_before(self.extremities)).id
            self._current_of = self.extremities
        return await self.group(self._current_id)

    async def state_before(self, prev_events: Sequence[EventId]) -> StateGroup:
        """The state before an event with these prev_events, all of which must be in the graph."""
        await self.load(prev_events)
        groups = []
        for event_id in prev_events:
            after = self.known[event_id].state_after
            assert after is not None, "prev_events are in the graph"
            groups.append(after)
        distinct = list(dict.fromkeys(groups))
        if not distinct:
            # This is the create event, or an event that claims to be the first.
            return await self.state_group_for({}, None)
        if len(distinct) == 1:
            return await self.group(distinct[0])
        return await self._merged(distinct)

    async def state_group_for(self, state: Mapping[StateKey, EventId], parent: StateGroup | None) -> StateGroup:
        """The state group of a state: the parent if that has the same state, else a new one."""
        if parent is not None and state == parent.state:
            return parent
        kept = choose_storage(parent, state)
        group = StateGroup(await self._store.next_group_id(self._connection), state, kept.distance)
        self._groups[group.id] = group
        self.new_groups[group.id] = (group, kept)
        return group

    async def _merged(self, group_ids: Collection[int]) -> StateGroup:
        together = frozenset(group_ids)
        done = self.new_merges.get(together) or self.room.merges.get(together)
        if done is not None:
            return await self.group(done)
        groups = [await self.group(group_id) for group_id in group_ids]
        state = await self._resolved(groups)
        same = next((group for group in groups if group.state == state), None)
        merged = same or await self.state_group_for(state, groups[0])
        self.new_merges[together] = merged.id
        return merged

    async def _resolved(self, groups: Sequence[StateGroup]) -> Mapping[StateKey, EventId]:
        sets = [group.state for group in groups]
        edges = await self._auth_edges(set().union(*(set(state.values()) for state in sets)))
        absent: set[EventId] = set()
        seconds = 0.0
        while True:
            began = time.perf_counter()
            result = resolve(self.version, sets, self.pdus, auth_edges=edges, rejected=self.rejected, absent=absent)
            seconds += time.perf_counter() - began
            if isinstance(result, Resolution):
                if self._observer is not None:
                    self._observer.state_resolved(seconds)
                return result.state
            await self.load(result.event_ids)
            absent |= result.event_ids - self.known.keys()

    async def _auth_edges(self, event_ids: set[EventId]) -> Mapping[EventId, tuple[EventId, ...]]:
        edges = self.room.edges
        for event in self.written.values():
            edges[event.pdu.event_id] = event.pdu.auth_events
        reachable_ids = reachable(event_ids, lambda event_id: edges.get(event_id, ()))
        unknown = [event_id for event_id in reachable_ids if event_id not in edges]
        if unknown:
            edges.update(await self._store.auth_edges(unknown, self._connection))
        return edges

    # -- authorising --

    async def authorise(
        self, event: VerifiedEvent, before: StateGroup, *, current: StateGroup | None
    ) -> Verdict | Dropped:
        """Steps 4 to 7 of the receive checks. `current` is None for an event of older history, to which steps
        6 and 7 do not apply."""
        pdu = event.pdu
        policy = None if current is None else await self.policy_server()
        if current is not None and current.id == before.id:
            current = None
        keys = required_state(pdu, self.version)
        states = [before] if current is None else [before, current]
        needed = [event_id for group in states for key in keys if (event_id := group.state.get(key)) is not None]
        needed += needed_for_step_4(pdu, self.version)
        await self.load(needed)
        result = authorise(
            event,
            self.version,
            self.pdus,
            self._part(before, keys),
            None if current is None else self._part(current, keys),
            rejected=self.rejected,
            policy=policy,
        )
        if isinstance(result, NeedEvents):
            return Dropped(f"step 4, auth events: {min(result.event_ids)} is not available")
        return result

    async def policy_server(self) -> PolicyServer | None:
        """The policy server that the room uses now. It counts only if one of its users is joined."""
        event_id = (await self.current()).state.get(POLICY)
        if event_id is None:
            return None
        await self.load([event_id])
        policy = parse_policy_server(self.pdus[event_id])
        return policy if policy is not None and policy.server in await self.joined_servers() else None

    def _part(self, group: StateGroup, keys: Iterable[StateKey]) -> dict[StateKey, Pdu]:
        state = group.state
        part = {}
        for key in keys:
            event_id = state.get(key)
            if event_id is not None and event_id not in self.rejected:
                part[key] = self.pdus[event_id]
        return part

    # -- inserting --

    async def receive_outlier(self, event: VerifiedEvent) -> Verdict | Dropped:
        """Add an event that other events need and whose position in the graph is unknown. Only step 4
        applies."""
        pdu = event.pdu
        if pdu.event_id in self.known:
            return self.known[pdu.event_id].result
        await self.load(needed_for_step_4(pdu, self.version))
        verdict = authorise_by_auth_events(event, self.version, self.pdus, rejected=self.rejected)
        if isinstance(verdict, NeedEvents):
            return Dropped(f"step 4, auth events: {min(verdict.event_ids)} is not available")
        if not isinstance(verdict, Dropped):
            self._write(known_event(pdu, verdict))
        return verdict

    async def insert(self, pdu: Pdu, verdict: Verdict, before: StateGroup, *, in_timeline: bool = True) -> KnownEvent:
        """Insert an event into the graph. If it is accepted and in the timeline, it becomes a forward
        extremity."""
        after = before
        if pdu.key is not None and not isinstance(verdict, Rejected):
            after = await self.state_group_for({**before.state, pdu.key: pdu.event_id}, before)
        event = known_event(pdu, verdict, before.id, after.id)
        self._write(event)
        if in_timeline and isinstance(verdict, Accepted):
            self.timeline.append(event)
            await self._advance(pdu)
        return event

    def _write(self, event: KnownEvent) -> None:
        self.written[event.pdu.event_id] = event
        self._add_known(event)

    async def _advance(self, pdu: Pdu) -> None:
        if self.extremities == pdu.prev_events:
            self.extremities = (pdu.event_id,)
            return
        hidden: dict[EventId, Sequence[EventId]] = {}
        to_visit = list(pdu.prev_events)
        while to_visit:
            # A chain of events that were not accepted is walked in full, since an extremity may lie behind
            # it.
            await self.load(to_visit)
            not_accepted = [
                event
                for event_id in to_visit
                if event_id not in hidden
                and (event := self.known.get(event_id)) is not None
                and event.verdict != "accepted"
            ]
            hidden |= {event.pdu.event_id: event.pdu.prev_events for event in not_accepted}
            to_visit = [event_id for event in not_accepted for event_id in event.pdu.prev_events]
        self.extremities = forward_extremities(self.extremities, [(pdu.event_id, pdu.prev_events)], hidden)

    # -- joined servers --

    async def joined_servers(self) -> Mapping[str, int]:
        """The number of joined members of each server in the current state."""
        current = await self.current()
        if self._joined_in != current.id:
            before = await self.group(self._joined_in)
            changed = {
                key: event_id
                for key, event_id in state_changes(before.state, current.state).items()
                if key[0] == "m.room.member"
            }
            was = {key: before.state.get(key) for key in changed}
            await self.load([event_id for event_id in (*changed.values(), *was.values()) if event_id])
            for key, event_id in changed.items():
                server = domain(key[1]) or ""
                self._count(server, was[key], -1)
                self._count(server, event_id, 1)
            self._joined_in = current.id
        return self._joined

    def _count(self, server: str, event_id: EventId | None, step: int) -> None:
        if event_id is not None and self.pdus[event_id].membership == "join":
            left = self._joined.get(server, 0) + step
            if left:
                self._joined[server] = left
            else:
                self._joined.pop(server, None)
