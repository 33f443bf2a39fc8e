"""Writes what a transaction has made of its rooms: some statements for all of them together."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from federation.errors import MatrixError
from federation.identifiers import domain
from federation.known_event import KnownEvent
from federation.message_content import relations_of
from federation.pdu import EventId, Pdu, StateKey
from federation.service.room_draft import RoomDraft
from federation.service.room_ports import Committed, OwnQueue, RoomView
from federation.service.room_store import RoomMemory, RoomStore
from federation.state_groups import Kept, StateGroup, changes
from storage import room_stream
from storage.current_state import CurrentStateRow, write_current_state
from storage.database import Connection
from storage.events import EventRow, capped, write_events
from storage.redactions import insert_redactions
from storage.relations import insert_relations
from storage.room_stream import Kind, StreamRow
from storage.rooms import RoomRow, insert_room, update_rooms
from storage.saying import Words
from storage.sent_transactions import Sent
from storage.state_groups import StateGroupRow, insert_state_groups

Queue = list[tuple[str, EventId]]
"""Servers and the events that they get."""


@dataclass(frozen=True, slots=True)
class Plain:
    """Messages that follow each other, the first one the only end of its room's graph, and leave the state as
    it is."""

    events: Sequence[KnownEvent]
    sent: Mapping[Sent, EventId]
    """By the names under which they are found when they are sent again."""
    destinations: Sequence[frozenset[str]]
    """Of each of them the servers that must be told."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is to be remembered once the transaction has been committed."""

    memories: Sequence[RoomMemory]
    committed: Sequence[Committed]
    told: Sequence[StreamRow]
    """What readers of the stream have to read."""


async def write_drafts(connection: Connection, drafts: Iterable[RoomDraft], origin: str | None) -> Outcome:
    groups: list[StateGroupRow] = []
    events: list[EventRow] = []
    updated: list[RoomRow] = []
    entries: list[CurrentStateRow] = []
    removed: list[tuple[str, str, str]] = []
    told: list[tuple[str, str, Kind]] = []
    redactions: list[tuple[str, str]] = []
    relations: list[tuple[str, str, str]] = []
    memories: list[RoomMemory] = []
    committed: list[Committed] = []
    for draft in drafts:
        if not draft.written:
            continue
        memory, changed = await _head(draft)
        memories.append(memory)
        row = _room_row(memory)
        if draft.is_new:
            if not await insert_room(connection, row):
                # Another process was quicker: a lock on a row that is not there yet keeps nobody out.
                raise MatrixError("M_ROOM_IN_USE", "There is such a room already.", 409)
        else:
            updated.append(row)
        groups += [_group_row(draft.room_id, *group) for group in draft.new_groups.values()]
        events += map(event_row, draft.written.values())
        news = [event.pdu.event_id for event in draft.timeline]
        told += [(draft.room_id, event_id, "timeline") for event_id in news]
        for key, (before, after) in changed.items():
            if after is None:
                removed.append((draft.room_id, *key))
                assert before is not None, "what is taken out was there"
                told.append((draft.room_id, before, "unset"))
                continue
            entries.append(_state_row(draft.room_id, key, draft.pdus[after]))
            if after not in news and not draft.is_new:
                told.append((draft.room_id, after, "state"))
        for event in draft.written.values():
            if event.verdict != "accepted" or event.is_outlier:
                continue
            target = event.pdu.redacts(draft.version)
            if target is not None:
                redactions.append((target, event.pdu.event_id))
            relations += _relations(event)
        for event in draft.timeline:
            sent_to = draft.destinations.get(event.pdu.event_id, frozenset())
            committed.append(Committed(event.pdu, draft.version, origin, sent_to))
        for event_id, servers in draft.missed.items():
            committed.append(Committed(draft.pdus[event_id], draft.version, None, servers))
    await insert_state_groups(connection, groups)
    await write_events(connection, events)
    await write_current_state(connection, entries, removed)
    await update_rooms(connection, updated)
    await insert_redactions(connection, redactions)
    await insert_relations(connection, relations)
    positions = await room_stream.append(connection, told)
    rows = [StreamRow(position, *entry) for position, entry in zip(positions, told, strict=True)]
    return Outcome(memories, committed, rows)


async def words_of(
    draft: RoomDraft,
    sent: Mapping[Sent, EventId],
    to_queue: Callable[[Sequence[Committed]], Queue],
    origin: str | None = None,
) -> tuple[Words, Outcome] | None:
    """What has been said in a room, as one statement writes it. None when more has come of it than that."""
    events = list(draft.written.values())
    memory, changed = await _head(draft)
    if (
        draft.new_groups
        or changed
        or memory.view.state_group != draft.memory.view.state_group
        or [event.pdu.event_id for event in draft.timeline] != list(draft.written)
        or any(event.pdu.redacts(draft.version) is not None for event in events)
    ):
        return None
    committed = [
        Committed(event.pdu, draft.version, origin, draft.destinations.get(event.pdu.event_id, frozenset()))
        for event in events
    ]
    words = Words(
        draft.room_id,
        draft.memory.view.generation,
        memory.view.forward_extremities,
        [event_row(event) for event in events],
        sent,
        [relation for event in events for relation in _relations(event)],
        to_queue(committed),
    )
    return words, Outcome([memory], committed, ())


def words_after(memory: RoomMemory, plain: Plain, queue: OwnQueue) -> tuple[Words, Outcome]:
    """Plain messages of ours, as one statement writes them."""
    view = memory.view
    committed = [
        Committed(event.pdu, view.version, None, destinations)
        for event, destinations in zip(plain.events, plain.destinations, strict=True)
    ]
    end = (plain.events[-1].pdu.event_id,)
    queued = queue.to_queue(committed)
    words = Words(
        view.room_id,
        view.generation,
        end,
        [event_row(event) for event in plain.events],
        plain.sent,
        [relation for event in plain.events for relation in _relations(event)],
        queued,
        queue.offered({destination for destination, _ in queued}),
    )
    after = RoomView(view.room_id, view.version, view.generation + 1, end, view.state_group)
    return words, Outcome([RoomMemory(after, memory.joined, memory.merges, memory.edges)], committed, ())


def words_heard(memory: RoomMemory, event: KnownEvent, origin: str) -> tuple[Words, Outcome]:
    """A message of another server that follows the only end of the room's graph and leaves the state as it
    is, as one statement writes it."""
    view, pdu = memory.view, event.pdu
    end = (pdu.event_id,)
    words = Words(view.room_id, view.generation, end, [event_row(event)], {}, _relations(event), [])
    after = RoomView(view.room_id, view.version, view.generation + 1, end, view.state_group)
    committed = Committed(pdu, view.version, origin, frozenset())
    return words, Outcome([RoomMemory(after, memory.joined, memory.merges, memory.edges)], [committed], ())


def remember(store: RoomStore, drafts: Iterable[RoomDraft], outcome: Outcome) -> None:
    """After the commit, and not before: what was rolled back must not be known."""
    for draft in drafts:
        for group, _ in draft.new_groups.values():
            store.remember_group(group)
        for event in draft.written.values():
            store.remember_event(event)
    for memory in outcome.memories:
        store.remember_room(memory)


async def _head(
    draft: RoomDraft,
) -> tuple[RoomMemory, Mapping[StateKey, tuple[EventId | None, EventId | None]]]:
    """Where the room stands now, and which entries of its state went from what to what."""
    view = draft.memory.view
    current = await draft.current()
    changed: dict[StateKey, tuple[EventId | None, EventId | None]] = {}
    if draft.is_new or current.id != view.state_group:
        before: Mapping[StateKey, EventId] = (
            {} if draft.is_new else (await draft.group(view.state_group)).state
        )
        after_of = changes(before, current.state)
        await draft.load(event_id for event_id in after_of.values() if event_id is not None)
        changed = {key: (before.get(key), event_id) for key, event_id in after_of.items()}
    memory = RoomMemory(
        replace(
            view,
            generation=view.generation + 1,
            forward_extremities=draft.extremities,
            state_group=current.id,
        ),
        await draft.joined(),
        draft.memory.merges | draft.new_merges if draft.new_merges else draft.memory.merges,
        draft.memory.edges,
    )
    return memory, changed


def _room_row(memory: RoomMemory) -> RoomRow:
    view = memory.view
    return RoomRow(
        view.room_id, view.version.id, view.generation, list(view.forward_extremities), view.state_group
    )


def _group_row(room_id: str, group: StateGroup, kept: Kept) -> StateGroupRow:
    return StateGroupRow(
        group.id,
        room_id,
        kept.parent,
        kept.distance,
        [key[0] for key in kept.entries],
        [key[1] for key in kept.entries],
        list(kept.entries.values()),
    )


def event_row(event: KnownEvent) -> EventRow:
    pdu = event.pdu
    return EventRow(
        pdu.event_id,
        pdu.room_id,
        pdu.type,
        pdu.state_key,
        pdu.sender,
        pdu.depth,
        capped(pdu.origin_server_ts),
        pdu.prev_events,
        pdu.auth_events,
        event.verdict,
        event.refusal,
        event.state_before,
        event.state_after,
        pdu.canonical,
    )


def _relations(event: KnownEvent) -> list[tuple[str, str, str]]:
    return [(target, rel_type, event.pdu.event_id) for rel_type, target in relations_of(event.pdu.content)]


def _state_row(room_id: str, key: StateKey, pdu: Pdu) -> CurrentStateRow:
    membership = pdu.membership if pdu.type == "m.room.member" else None
    if not isinstance(membership, str):
        return CurrentStateRow(room_id, *key, pdu.event_id, None, None)
    return CurrentStateRow(room_id, *key, pdu.event_id, membership, domain(key[1]) or "")
