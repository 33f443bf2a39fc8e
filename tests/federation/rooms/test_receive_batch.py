"""Receiving a batch into a draft."""

from federation.client.peer_events import StateIds
from federation.events import Pdu
from federation.events.received import ACCEPTED, Dropped
from federation.rooms.draft import RoomDraft
from federation.rooms.gap_filling import RoomBatch
from federation.rooms.receive import event_ids_to_load, known_state, receive_batch, receive_outliers
from federation.rooms.receive_checks import VerifiedEvent
from federation.rooms.store import RoomStore
from storage.database import Database
from tests.support.graph import graph_on, join
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room


def batch_of(room: Room, *pdus: Pdu) -> RoomBatch:
    return RoomBatch(room.room_id, room.version, {pdu.event_id: VerifiedEvent(pdu) for pdu in pdus})


async def test_history_is_not_published(database: Database) -> None:
    """It is inserted into the graph; extremities and current state stay."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        store = RoomStore(database)
        async with database.transaction() as connection:
            memory = (await store.rooms([room.room_id]))[room.room_id]
            draft = RoomDraft(store, connection, memory)
            before = draft.extremities
            message = room.say(BOB)
            results = await receive_batch(draft, batch_of(room, message), in_timeline=False)
            assert results == {message.event_id: ACCEPTED}
            assert draft.is_in_graph(message.event_id)
            assert (draft.extremities, draft.timeline) == (before, [])


async def test_a_gap_is_crossed_only_with_a_valid_state(database: Database) -> None:
    """Without a create event, or without the event behind the gap, it is not."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        state = StateIds(tuple(pdu.event_id for pdu in room.state().values()), ())
        lost = room.say(BOB, "lost")
        last = room.say(BOB, "last", after=[lost])
        store = RoomStore(database)
        async with database.transaction() as connection:
            memory = (await store.rooms([room.room_id]))[room.room_id]
            for states, outliers in (
                ({}, {}),
                ({lost.event_id: state}, {}),
                ({lost.event_id: StateIds((), ())}, {lost.event_id: VerifiedEvent(lost)}),
            ):
                draft = RoomDraft(store, connection, memory)
                batch = batch_of(room, last)
                batch.states, batch.outliers = states, outliers
                assert event_ids_to_load(batch) == {lost.event_id, last.event_id}
                results = await receive_batch(draft, batch)
                dropped = Dropped(f"its prev_event {lost.event_id} is not available")
                assert results == {last.event_id: dropped}
            draft = RoomDraft(store, connection, memory)
            batch.states = {lost.event_id: state}
            assert await receive_batch(draft, batch) == {last.event_id: ACCEPTED}
            assert draft.is_in_graph(lost.event_id)
            # When its own server sends it later it is in the graph already, so it is published now.
            assert [event.pdu for event in draft.timeline] == [lost, last]


async def test_the_event_behind_a_gap_is_checked_against_the_current_state(database: Database) -> None:
    """Otherwise a banned user could send events through a friend whose events refer to them."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        state = StateIds(tuple(pdu.event_id for pdu in room.state().values()), ())
        start = room.head
        banned = room.member(ALICE, BOB, "ban", after=start)
        late = room.say(BOB, "late", after=[room.say(BOB, "lost", after=start)])
        friends = room.say(ALICE, "listen to him", after=[late, banned])
        await here.graph.receive("a.example", [banned.event])
        store = RoomStore(database)
        async with database.transaction() as connection:
            memory = (await store.rooms([room.room_id]))[room.room_id]
            for first_depth, verdict in ((0, "soft_failed"), (late.depth + 1, "accepted")):
                draft = RoomDraft(store, connection, memory)
                batch = batch_of(room, friends)
                batch.outliers, batch.states = {late.event_id: VerifiedEvent(late)}, {late.event_id: state}
                batch.first_depth = first_depth
                assert await receive_batch(draft, batch) == {friends.event_id: ACCEPTED}
                assert draft.known[late.event_id].verdict == verdict
                assert [event.pdu for event in draft.timeline] == [friends]


async def test_a_known_state_has_only_accepted_state_events_of_the_room(database: Database) -> None:
    """Messages, events of other rooms, unknown ones and a second entry for a key are left out."""
    room, other = public_room("12", BOB), public_room("12", another=True)
    async with database.transaction() as connection:
        draft = await RoomDraft.of_new_room(RoomStore(database), connection, room.room_id, room.version)
        message = room.say(BOB)
        first, second = room.topic(ALICE, "first"), room.topic(ALICE, "second")
        bad = room.propose("m.room.name", CAROL, {}, "")
        everything = [*room.events.values(), bad, other.create]
        await receive_outliers(draft, {pdu.event_id: VerifiedEvent(pdu) for pdu in reversed(everything)})
        ids = [message, first, second, bad, other.create, room.create]
        state = await known_state(draft, StateIds((*(pdu.event_id for pdu in ids), "$unknown"), ()))
        assert state == {("m.room.topic", ""): first.event_id, ("m.room.create", ""): room.create.event_id}
