"""What a transaction is about to make of one room: its events are judged in memory, one after the other, each
against what those before it have left. `room_commit.py` writes it all at once."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Self

from federation.auth_rules import state_needed
from federation.events import EventId, Pdu, StateKey
from federation.events.graph import forward_extremities
from federation.events.received import Accepted, Dropped, Rejected, Verdict
from federation.matrix.identifiers import domain
from federation.matrix.room_version import RoomVersion
from federation.observer import HomeserverObserver
from federation.rooms.policy_server import POLICY, PolicyServer, named_by
from federation.rooms.ports import RoomView
from federation.rooms.receive_checks import (
    Genuine,
    KnownEvent,
    NeedEvents,
    authorise,
    authorise_by_auth_events,
    known,
    needed_for_step_4,
)
from federation.rooms.store import RoomMemory, RoomStore
from federation.state_resolution.conflicts import reachable
from federation.state_resolution.resolve import Resolution, resolve
from federation.state_resolution.state_groups import Kept, StateGroup, changes, how_to_keep
from storage.database import Connection


class RoomDraft:
    """`memory` is the room as it stands, locked by the transaction of `connection`; it is left as it is."""

    def __init__(
        self,
        store: RoomStore,
        connection: Connection,
        memory: RoomMemory,
        observer: HomeserverObserver | None = None,
        *,
        is_new: bool = False,
    ) -> None:
        self.memory = memory
        self.room_id = memory.view.room_id
        self.version = memory.view.version
        self.is_new = is_new
        self.extremities = memory.view.forward_extremities
        self.known: dict[EventId, KnownEvent] = {}
        self.pdus: dict[EventId, Pdu] = {}
        self.rejected: set[EventId] = set()
        self.written: dict[EventId, KnownEvent] = {}
        self.timeline: list[KnownEvent] = []
        self.destinations: dict[EventId, frozenset[str]] = {}
        # Events that are known already, and servers that have missed them.
        self.missed: dict[EventId, frozenset[str]] = {}
        self.new_groups: dict[int, tuple[StateGroup, Kept]] = {}
        self.new_merges: dict[frozenset[int], int] = {}
        self._store = store
        self._connection = connection
        self._looked_for: set[EventId] = set()
        self._observer = observer
        self._groups: dict[int, StateGroup] = {}
        self._current_id = memory.view.state_group
        self._current_of = self.extremities
        self._joined = dict(memory.joined)
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
        """A room that there has not been, with nothing in it."""
        empty = StateGroup(await store.next_group_id(connection), {})
        view = RoomView(room_id, version, 0, (), empty.id)
        draft = cls(store, connection, RoomMemory(view, {}), observer, is_new=True)
        draft._groups[empty.id] = empty
        draft.new_groups[empty.id] = (empty, Kept(None, 0, {}))
        return draft

    # -- loading --

    async def load(self, event_ids: Iterable[EventId], *, placed: bool = False) -> None:
        """What is known of these events; one query, however many they are."""
        wanted = [one for one in event_ids if one not in self.known and one not in self._looked_for]
        if wanted:
            self.learn(wanted, await self._store.events(wanted, self._connection, placed=placed))

    def learn(self, looked_for: Iterable[EventId], found: Mapping[EventId, KnownEvent]) -> None:
        """What somebody has looked for under the room's lock, and what of it there was."""
        for event_id in looked_for:
            self._looked_for.add(event_id)
            event = found.get(event_id)
            if event is not None and event_id not in self.known:
                self._know(event)

    async def group(self, group_id: int) -> StateGroup:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = await self._store.group(group_id, self._connection)
        return group

    def _know(self, event: KnownEvent) -> None:
        # An event without a room_id of this room may be named by a peer; nothing of ours rests on it.
        event_id = event.pdu.event_id
        self.known[event_id] = event
        self.pdus[event_id] = event.pdu
        if event.verdict == "rejected":
            self.rejected.add(event_id)

    def has_place(self, event_id: EventId) -> bool:
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
        """The state that an event has before it which follows these, all of which have their place."""
        await self.load(prev_events)
        groups = []
        for event_id in prev_events:
            after = self.known[event_id].state_after
            assert after is not None, "only an event that has its place can be followed"
            groups.append(after)
        distinct = list(dict.fromkeys(groups))
        if not distinct:
            return await self.group_of({}, None)  # of the create event, and of one that claims to come first
        if len(distinct) == 1:
            return await self.group(distinct[0])
        return await self._merged(distinct)

    async def group_of(self, state: Mapping[StateKey, EventId], parent: StateGroup | None) -> StateGroup:
        """A number for a state: the parent's if it is the same."""
        if parent is not None and state == parent.state:
            return parent
        kept = how_to_keep(parent, state)
        group = StateGroup(await self._store.next_group_id(self._connection), state, kept.distance)
        self._groups[group.id] = group
        self.new_groups[group.id] = (group, kept)
        return group

    async def _merged(self, group_ids: Collection[int]) -> StateGroup:
        together = frozenset(group_ids)
        done = self.new_merges.get(together) or self.memory.merges.get(together)
        if done is not None:
            return await self.group(done)
        groups = [await self.group(group_id) for group_id in group_ids]
        state = await self._resolved(groups)
        same = next((group for group in groups if group.state == state), None)
        merged = same or await self.group_of(state, groups[0])
        self.new_merges[together] = merged.id
        return merged

    async def _resolved(self, groups: Sequence[StateGroup]) -> Mapping[StateKey, EventId]:
        sets = [group.state for group in groups]
        edges = await self._edges_behind(set().union(*(set(state.values()) for state in sets)))
        absent: set[EventId] = set()
        seconds = 0.0
        while True:
            began = time.perf_counter()
            result = resolve(
                self.version, sets, self.pdus, auth_edges=edges, rejected=self.rejected, absent=absent
            )
            seconds += time.perf_counter() - began
            if isinstance(result, Resolution):
                if self._observer is not None:
                    self._observer.state_resolved(seconds)
                return result.state
            await self.load(result.event_ids)
            absent |= result.event_ids - self.known.keys()

    async def _edges_behind(self, event_ids: set[EventId]) -> Mapping[EventId, tuple[EventId, ...]]:
        edges = self.memory.edges
        for event in self.written.values():
            edges[event.pdu.event_id] = event.pdu.auth_events
        behind = reachable(event_ids, lambda event_id: edges.get(event_id, ()))
        unknown = [event_id for event_id in behind if event_id not in edges]
        if unknown:
            edges.update(await self._store.auth_edges(unknown, self._connection))
        return edges

    # -- judging --

    async def judge(
        self, genuine: Genuine, before: StateGroup, *, current: StateGroup | None
    ) -> Verdict | Dropped:
        """Steps 4 to 7. `current` is None when the event's place is long past."""
        pdu = genuine.pdu
        policy = None if current is None else await self.policy_server()
        if current is not None and current.id == before.id:
            current = None
        keys = state_needed(pdu, self.version)
        states = [before] if current is None else [before, current]
        looked_at = [
            event_id for group in states for key in keys if (event_id := group.state.get(key)) is not None
        ]
        looked_at += needed_for_step_4(pdu, self.version)
        await self.load(looked_at)
        result = authorise(
            genuine,
            self.version,
            self.pdus,
            self._part(before, keys),
            None if current is None else self._part(current, keys),
            rejected=self.rejected,
            policy=policy,
        )
        if isinstance(result, NeedEvents):
            return Dropped(
                f"step 4, auth events: {min(result.event_ids)}, on which it rests, is not to be had"
            )
        return result

    async def policy_server(self) -> PolicyServer | None:
        """The one that the room uses now: somebody of it has to be joined."""
        event_id = (await self.current()).state.get(POLICY)
        if event_id is None:
            return None
        await self.load([event_id])
        policy = named_by(self.pdus[event_id])
        return policy if policy is not None and policy.server in await self.joined() else None

    def _part(self, group: StateGroup, keys: Iterable[StateKey]) -> dict[StateKey, Pdu]:
        state = group.state
        part = {}
        for key in keys:
            event_id = state.get(key)
            if event_id is not None and event_id not in self.rejected:
                part[key] = self.pdus[event_id]
        return part

    # -- taking in --

    async def take_outlier(self, genuine: Genuine) -> Verdict | Dropped:
        """An event that others rest on, of which the place is unknown: step 4 is all that can be asked."""
        pdu = genuine.pdu
        if pdu.event_id in self.known:
            return self.known[pdu.event_id].receipt
        await self.load(needed_for_step_4(pdu, self.version))
        verdict = authorise_by_auth_events(genuine, self.version, self.pdus, rejected=self.rejected)
        if isinstance(verdict, NeedEvents):
            return Dropped(
                f"step 4, auth events: {min(verdict.event_ids)}, on which it rests, is not to be had"
            )
        if not isinstance(verdict, Dropped):
            self._write(known(pdu, verdict))
        return verdict

    async def place(
        self, pdu: Pdu, verdict: Verdict, before: StateGroup, *, in_timeline: bool = True
    ) -> KnownEvent:
        """Give an event its place. Accepted and of the timeline, it becomes an end of the graph."""
        after = before
        if pdu.key is not None and not isinstance(verdict, Rejected):
            after = await self.group_of({**before.state, pdu.key: pdu.event_id}, before)
        event = known(pdu, verdict, before.id, after.id)
        self._write(event)
        if in_timeline and isinstance(verdict, Accepted):
            self.timeline.append(event)
            await self._advance(pdu)
        return event

    def _write(self, event: KnownEvent) -> None:
        self.written[event.pdu.event_id] = event
        self._know(event)

    async def _advance(self, pdu: Pdu) -> None:
        if self.extremities == pdu.prev_events:
            self.extremities = (pdu.event_id,)
            return
        hidden: dict[EventId, Sequence[EventId]] = {}
        to_visit = list(pdu.prev_events)
        while to_visit:
            # A chain of refused events is walked in full: an end may lie behind it.
            await self.load(to_visit)
            refused = [
                event
                for event_id in to_visit
                if event_id not in hidden
                and (event := self.known.get(event_id)) is not None
                and event.verdict != "accepted"
            ]
            hidden |= {event.pdu.event_id: event.pdu.prev_events for event in refused}
            to_visit = [event_id for event in refused for event_id in event.pdu.prev_events]
        self.extremities = forward_extremities(self.extremities, [(pdu.event_id, pdu.prev_events)], hidden)

    # -- who is there --

    async def joined(self) -> Mapping[str, int]:
        """How many members of each server are joined in the current state."""
        current = await self.current()
        if self._joined_in != current.id:
            before = await self.group(self._joined_in)
            changed = {
                key: event_id
                for key, event_id in changes(before.state, current.state).items()
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
