"""Fetching missing events, also from peers that lie."""

from typing import Any

import pytest

from federation.events import Pdu
from federation.events.received import ACCEPTED, Dropped, Rejected
from federation.matrix.errors import MatrixError
from storage.database import Database
from tests.support.graph import US, graph_on, join, raw, streamed
from tests.support.rooms import ALICE, BOB, CAROL, DAVE, Room, levels_of, public_room

VERSIONS = pytest.mark.parametrize("version", ["6", "11", "12"])


def ids(room: Room, ends: list[Pdu]) -> dict[Any, str]:
    return {key: pdu.event_id for key, pdu in room.state(ends).items()}


@VERSIONS
async def test_a_small_gap_is_filled_with_the_missing_events(version: str, database: Database) -> None:
    """With one request; all events are in the timeline, in their order."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        messages = [room.say(BOB, str(number)) for number in range(10)]
        results = await here.graph.receive("b.example", raw(messages[-1]))
        assert results == dict.fromkeys((pdu.event_id for pdu in messages), ACCEPTED)
        assert here.peer.asked() == ["missing_events"]
        assert (await streamed(here.graph, 0))[-10:] == messages


@VERSIONS
async def test_only_the_unknown_events_of_a_branch_are_received(version: str, database: Database) -> None:
    """A peer whose events do not meet our extremities returns events back to the beginning of the room; the
    known ones are not published again."""
    room = public_room(version, BOB)
    old = [room.say(BOB, str(number)) for number in range(3)]
    async with graph_on(database, room) as here:
        await join(here, room)
        common = room.say(BOB, "common")
        await here.graph.receive("b.example", raw(common))
        local_event = await here.graph.send_event(room.room_id, "m.room.message", {}, US)
        lost = room.say(BOB, "lost", after=[common])
        last = room.say(BOB, "last", after=[lost])
        here.peer.also = [pdu.event for pdu in (*old, room.create)]
        results = await here.graph.receive("b.example", raw(last))
        assert results == {lost.event_id: ACCEPTED, last.event_id: ACCEPTED}
        assert (await streamed(here.graph, 0))[1:] == [common, local_event, lost, last]
        view = await here.graph.room(room.room_id)
        assert view is not None
        assert set(view.forward_extremities) == {local_event.event_id, last.event_id}


@VERSIONS
async def test_events_before_our_join_are_no_gap(version: str, database: Database) -> None:
    """A user sent an event without having seen our join. Its prev_events are inserted, and not published."""
    room = public_room(version, BOB)
    for number in range(3):
        room.say(BOB, str(number))
    before = room.head
    async with graph_on(database, room) as here:
        joined = await join(here, room)
        beside = room.say(ALICE, "beside", after=before)
        here.peer.also = [before[0].event]
        assert await here.graph.receive("a.example", raw(beside)) == {beside.event_id: ACCEPTED}
        assert await streamed(here.graph, 0) == [joined, beside]
        assert await here.graph.state_at(beside.event_id) == ids(room, before)


@VERSIONS
async def test_a_larger_gap_takes_several_requests(version: str, database: Database) -> None:
    """As long as each response helps."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        messages = [room.say(BOB, str(number)) for number in range(45)]
        results = await here.graph.receive("b.example", raw(messages[-1]))
        assert len(results) == 45
        assert here.peer.asked() == ["missing_events"] * 3


@VERSIONS
async def test_a_gap_that_is_too_large_is_crossed_with_the_state(version: str, database: Database) -> None:
    """Its state changes are known afterwards, its messages are not."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        room.join(CAROL)
        room.topic(ALICE, "in the gap")
        for number in range(520):
            room.say(BOB, str(number))
        last = room.say(CAROL, "here I am")
        results = await here.graph.receive("b.example", raw(last))
        assert set(results.values()) == {ACCEPTED}
        assert here.peer.asked().count("missing_events") == 25
        assert here.peer.asked().count("state_ids") == 1
        assert "state" not in here.peer.asked()
        assert await here.graph.state_at(last.event_id) == ids(room, room.head)
        current = await here.graph.current_state(room.room_id)
        assert current == ids(room, room.head)
        assert "c.example" in await here.graph.servers_in_room(room.room_id)


@VERSIONS
async def test_much_unknown_state_is_fetched_as_a_whole(version: str, database: Database) -> None:
    """Otherwise there would be a request for each member."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        for number in range(30):
            room.join(f"@guest{number}:c.example")
        room.say(ALICE)
        last = room.say(ALICE)
        here.peer.no_missing = True
        assert await here.graph.receive("a.example", raw(last)) == {last.event_id: ACCEPTED}
        assert here.peer.asked().count("state") == 1
        assert await here.graph.state_at(last.event_id) == ids(room, room.head)


@VERSIONS
async def test_a_gap_that_cannot_be_filled_only_drops_its_event(version: str, database: Database) -> None:
    """The other events of the transaction are received, and the response names the dropped one."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        start = room.head
        good = room.say(ALICE, after=start)
        hidden = room.say(BOB, after=start)
        orphan = room.say(BOB, after=[hidden])
        here.peer.no_missing = here.peer.no_state = True
        results = await here.graph.receive("b.example", raw(orphan, good))
        assert results[good.event_id] == ACCEPTED
        assert results[orphan.event_id] == Dropped(f"its prev_event {hidden.event_id} is not available")
        assert len(here.reports) == 2
        # Received again together with the missing events, it is accepted.
        results = await here.graph.receive("b.example", raw(orphan, hidden))
        assert set(results.values()) == {ACCEPTED}


@VERSIONS
@pytest.mark.parametrize("question", ["missing_events", "state_ids", "state", "event"])
async def test_a_gap_is_not_crossed_while_the_peer_is_unreachable(
    version: str, question: str, database: Database
) -> None:
    """Part of a state would be another state, and the events of a skipped gap stay unknown. The event is
    received again later."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        before = await here.graph.room(room.room_id)
        for number in range(25 if question == "state" else 5):
            room.join(f"@guest{number}:c.example")
        lost = room.say(BOB, "lost")
        last = room.say(BOB, "last", after=[lost])
        here.peer.no_missing = question != "missing_events"
        here.peer.unreachable = {question}
        with pytest.raises(MatrixError, match="503"):
            await here.graph.receive("b.example", raw(last))
        assert await here.graph.room(room.room_id) == before
        here.peer.unreachable = set()
        results = await here.graph.receive("b.example", raw(last))
        assert set(results.values()) == {ACCEPTED}
        assert await here.graph.state_at(last.event_id) == ids(room, [lost])


@VERSIONS
async def test_an_unknown_auth_event_is_fetched(version: str, database: Database) -> None:
    """It is on another branch, which this server has not seen."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        start = room.head
        levels = room.power_levels(ALICE, {**levels_of(room), "ban": 60}, after=start)
        auth = [levels if pdu.type == "m.room.power_levels" else pdu for pdu in room.propose_auth(ALICE)]
        odd = room.propose("m.room.message", ALICE, {}, after=start, auth=auth)
        room.events[odd.event_id] = odd
        results = await here.graph.receive("a.example", raw(odd))
        assert results == {odd.event_id: ACCEPTED}
        assert here.peer.asked() == ["event_auth"]


@VERSIONS
async def test_an_unavailable_auth_event_is_no_reason_to_reject(version: str, database: Database) -> None:
    """The event is dropped, and authorised when it is received again."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        start = room.head
        levels = room.power_levels(ALICE, {**levels_of(room), "ban": 60}, after=start)
        auth = [levels if pdu.type == "m.room.power_levels" else pdu for pdu in room.propose_auth(ALICE)]
        odd = room.propose("m.room.message", ALICE, {}, after=start, auth=auth)
        room.events[odd.event_id] = odd
        here.peer.hidden = {levels.event_id}
        results = await here.graph.receive("a.example", raw(odd))
        assert results == {odd.event_id: Dropped(f"step 4, auth events: {levels.event_id} is not available")}
        here.peer.hidden = set()
        assert await here.graph.receive("a.example", raw(odd)) == {odd.event_id: ACCEPTED}


@VERSIONS
async def test_a_rejected_auth_event_rejects(version: str, database: Database) -> None:
    """Rule 3.3, also if the auth event was fetched."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        start = room.head
        coup = room.propose("m.room.power_levels", BOB, {"users": {BOB: 100}}, "", after=start)
        room.add(coup, rejected=True)
        auth = [coup if pdu.type == "m.room.power_levels" else pdu for pdu in room.propose_auth(BOB)]
        using_it = room.propose("m.room.topic", BOB, {"topic": "mine"}, "", after=start, auth=auth)
        room.events[using_it.event_id] = using_it
        rejected = (await here.graph.receive("b.example", raw(using_it)))[using_it.event_id]
        assert isinstance(rejected, Rejected)
        assert "themselves rejected" in rejected.text


@VERSIONS
async def test_events_that_were_not_requested_are_ignored(version: str, database: Database) -> None:
    """A response may contain events of other rooms, unsigned ones, or ones beside the gap."""
    room, other = public_room(version, BOB), public_room(version, another=True)
    async with graph_on(database, room) as here:
        await join(here, room)
        start = room.head
        beside = room.say(BOB, "beside", after=start)
        lost = room.say(BOB, "lost", after=start)
        last = room.say(BOB, "last", after=[lost])
        forged = {**beside.event, "signatures": {}}
        here.peer.also = [beside.event, other.create.event, other.events[other.head[0].event_id].event, forged, 5]
        results = await here.graph.receive("b.example", raw(last))
        assert results == {lost.event_id: ACCEPTED, last.event_id: ACCEPTED}


@VERSIONS
async def test_the_events_of_a_false_state_are_authorised(version: str, database: Database) -> None:
    """The peer claims that Dave's coup is in the state before the gap. The auth rules never allowed it."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        true_levels = room.state()["m.room.power_levels", ""]
        coup = room.propose("m.room.power_levels", DAVE, {"users": {DAVE: 100}}, "")
        room.events[coup.event_id] = coup
        room.state_after[coup.event_id] = {}
        lost = room.say(ALICE, "lost")
        last = room.say(ALICE, "last", after=[lost])
        room.state_after[room.events[lost.event_id].prev_events[0]][true_levels.key] = coup.event_id
        here.peer.no_missing = True
        await here.graph.receive("d.example", raw(last))
        state = await here.graph.current_state(room.room_id)
        assert state.get(("m.room.power_levels", "")) != coup.event_id
        known = await here.graph.known_events([coup.event_id])
        assert known[coup.event_id].verdict == "rejected"


async def test_local_events_are_sent_while_a_gap_is_being_filled(database: Database) -> None:
    """Nothing is locked while the peer's response is pending."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        lost = room.say(BOB, "lost")
        last = room.say(BOB, "last", after=[lost])
        answer = here.peer.missing_events

        async def slow(*args: Any, **how: Any) -> Any:
            await here.graph.send_event(room.room_id, "m.room.message", {"body": "meanwhile"}, US)
            return await answer(*args, **how)

        here.peer.missing_events = slow  # type: ignore[method-assign]  # this peer is slow
        results = await here.graph.receive("b.example", raw(last))
        assert set(results.values()) == {ACCEPTED}
        view = await here.graph.room(room.room_id)
        assert view is not None
        assert len(view.forward_extremities) == 2
        healed = await here.graph.send_event(room.room_id, "m.room.message", {"body": "healed"}, US)
        assert set(healed.prev_events) == set(view.forward_extremities)


@VERSIONS
async def test_history_before_the_join_is_fetched(version: str, database: Database) -> None:
    """Back to the beginning, a part at a time. It can be read, and is not published in the stream."""
    room = public_room(version, BOB)
    old = [room.say(BOB, str(number)) for number in range(30)]
    async with graph_on(database, room) as here:
        joined = await join(here, room)
        assert await here.graph.fetch_history("a.example", room.room_id, 20) == 19
        found = await here.graph.backfill(room.room_id, [joined.event_id], 100)
        assert found[:21] == [joined, *reversed(old[10:])]
        assert await here.graph.fetch_history("a.example", room.room_id, 100) > 0
        assert await here.graph.fetch_history("a.example", room.room_id, 100) == 0
        everything = await here.graph.backfill(room.room_id, [joined.event_id], 100)
        assert everything == list(reversed(room.events.values()))
        for pdu in old:
            expected = ids(room, [room.events[one] for one in pdu.prev_events])
            assert await here.graph.state_at(pdu.event_id) == expected
        assert await streamed(here.graph, 0) == [joined]
        view = await here.graph.room(room.room_id)
        assert view is not None
        assert view.forward_extremities == (joined.event_id,)


async def test_unavailable_history(database: Database) -> None:
    """Of a server that does not answer, or of an unknown room."""
    room = public_room("12", BOB)
    room.say(BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        here.peer.no_missing = True
        assert await here.graph.fetch_history("a.example", room.room_id) == 0
        assert len(here.reports) == 1
        with pytest.raises(MatrixError, match="404"):
            await here.graph.fetch_history("a.example", "!unknown:a.example")
