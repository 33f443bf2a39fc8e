"""Authorising and inserting events in a draft."""

from federation.events.received import ACCEPTED, Dropped, Rejected
from federation.matrix.room_version import ROOM_VERSIONS
from federation.rooms.draft import RoomDraft
from federation.rooms.receive_checks import VerifiedEvent
from federation.rooms.store import RoomStore
from storage.database import Database
from tests.support.graph import graph_on, join
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room


async def test_a_room_grows_in_a_draft(database: Database) -> None:
    """Nothing is in the database, and an event that is not there is queried only once."""
    room = public_room("11", BOB)
    async with database.transaction() as connection:
        draft = await RoomDraft.of_new_room(RoomStore(database), connection, room.room_id, room.version)
        for pdu in room.events.values():
            before = await draft.state_before(pdu.prev_events)
            verdict = await draft.authorise(VerifiedEvent(pdu), before, current=await draft.current())
            assert verdict == ACCEPTED
            assert isinstance(verdict, type(ACCEPTED))
            await draft.insert(pdu, verdict, before)
        current = await draft.current()
        assert current.state == {key: pdu.event_id for key, pdu in room.state().items()}
        assert draft.extremities == (room.head[0].event_id,)
        assert await draft.joined_servers() == {"a.example": 1, "b.example": 1}
        assert [event.pdu for event in draft.timeline] == list(room.events.values())


async def test_messages_share_the_state_group_of_their_prev_events(database: Database) -> None:
    """A state that equals its parent's gets no new state group."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        store = RoomStore(database)
        async with database.transaction() as connection:
            memory = (await store.rooms([room.room_id]))[room.room_id]
            draft = RoomDraft(store, connection, memory)
            before = await draft.current()
            for _ in range(3):
                pdu = room.say(BOB)
                event = await draft.insert(pdu, ACCEPTED, await draft.state_before(pdu.prev_events))
                assert (event.state_before, event.state_after) == (before.id, before.id)
            assert draft.new_groups == {}
            assert await draft.state_group_for(dict(before.state), before) is before


async def test_outliers_are_authorised_by_their_auth_events_only(database: Database) -> None:
    """Those whose auth events are missing are dropped."""
    room = public_room("12", BOB)
    async with database.transaction() as connection:
        draft = await RoomDraft.of_new_room(RoomStore(database), connection, room.room_id, room.version)
        first, *others = room.events.values()
        waiting = await draft.receive_outlier(VerifiedEvent(others[-1]))
        assert isinstance(waiting, Dropped)
        for pdu in (first, *others):
            assert await draft.receive_outlier(VerifiedEvent(pdu)) == ACCEPTED
        bad = room.propose("m.room.message", CAROL, {})
        assert isinstance(await draft.receive_outlier(VerifiedEvent(bad)), Rejected)
        assert isinstance(await draft.receive_outlier(VerifiedEvent(bad)), Rejected)
        assert draft.rejected == {bad.event_id}
        assert not draft.is_in_graph(first.event_id)
        assert draft.extremities == ()


async def test_an_event_of_another_room_is_not_in_the_graph(database: Database) -> None:
    """Even if an event names it in its prev_events."""
    room, other = public_room("12", BOB), Room("12", another=True)
    async with graph_on(database, room) as here:
        await join(here, room)
        other.join(ALICE)
        other.join_rule(ALICE, "public")
        joined = await join(here, other)
        store = RoomStore(database)
        async with database.transaction() as connection:
            memory = (await store.rooms([room.room_id]))[room.room_id]
            draft = RoomDraft(store, connection, memory)
            await draft.load([joined.event_id], refresh_outliers=True)
            assert not draft.is_in_graph(joined.event_id)
            assert draft.version is ROOM_VERSIONS["12"]
