"""Importing a room after a join."""

from typing import Any

import pytest

from federation.events import Pdu
from federation.events.received import ACCEPTED
from federation.matrix.errors import PeerError
from federation.matrix.room_version import ROOM_VERSIONS
from storage.database import Database
from tests.support.graph import US, Graph, graph_on, join, raw, streamed
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room

VERSIONS = pytest.mark.parametrize("version", ["6", "11", "12"])


async def take_in(here: Graph, room: Room, joined: Pdu, state: list[Any], chain: list[Any], **how: Any) -> Pdu:
    return await here.graph.import_room(
        "a.example", how.get("version", room.version), state=state, auth_chain=chain, event=joined.event
    )


def everything(room: Room) -> list[Any]:
    return [pdu.event for pdu in room.events.values()]


@VERSIONS
async def test_the_state_is_that_before_the_join_and_the_join(version: str, database: Database) -> None:
    """Readers get the join, and can read the rest."""
    room = public_room(version, BOB, CAROL)
    room.topic(ALICE, "hello")
    async with graph_on(database, room) as here:
        joined = await join(here, room)
        expected = {key: pdu.event_id for key, pdu in room.state().items()}
        assert await here.graph.current_state(room.room_id) == expected
        assert await streamed(here.graph, 0) == [joined]
        before = await here.graph.state_at(joined.event_id)
        assert before == {key: one for key, one in expected.items() if one != joined.event_id}
        servers = await here.graph.servers_in_room(room.room_id)
        assert servers == {"a.example", "b.example", "c.example", "here.example"}
        assert here.hook.committed[0].destinations == frozenset()


@VERSIONS
async def test_importing_a_room_twice_changes_nothing(version: str, database: Database) -> None:
    """The response may have been lost."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        joined = await join(here, room)
        before = await here.graph.room(room.room_id)
        assert await take_in(here, room, joined, everything(room)[:-1], []) == joined
        assert await here.graph.room(room.room_id) == before


@VERSIONS
async def test_forged_events_are_ignored(version: str, database: Database) -> None:
    """The state consists of the remaining events."""
    room = public_room(version, BOB)
    topic = room.topic(ALICE, "forged")
    state = [pdu.event for pdu in room.state().values() if pdu != topic]
    forged = {**topic.event, "signatures": {"a.example": {"ed25519:test": "A" * 86}}}
    joined = room.join(US)
    async with graph_on(database, room) as here:
        await take_in(here, room, joined, [*state, forged], state)
        assert ("m.room.topic", "") not in await here.graph.current_state(room.room_id)
        assert await here.graph.known_events([topic.event_id]) == {}


@VERSIONS
async def test_events_that_the_auth_rules_reject_are_not_part_of_the_state(version: str, database: Database) -> None:
    """They are stored as rejected, so that events that depend on them are rejected as well."""
    room = public_room(version, BOB)
    coup = room.propose("m.room.power_levels", BOB, {"users": {BOB: 100}}, "")
    levels = room.state()["m.room.power_levels", ""]
    state = [pdu.event for pdu in room.state().values() if pdu != levels]
    joined = room.join(US)
    async with graph_on(database, room) as here:
        await take_in(here, room, joined, [coup.event, *state, levels.event], everything(room)[:-1])
        assert (await here.graph.current_state(room.room_id))["m.room.power_levels", ""] == levels.event_id
        assert (await here.graph.known_events([coup.event_id]))[coup.event_id].verdict == "rejected"


@VERSIONS
async def test_an_invalid_room_is_a_peer_error(version: str, database: Database) -> None:
    """No create event, two of them, another version, a join that is not allowed. Nothing is stored."""
    room, other = public_room(version, BOB), Room(version, **{"m.federate": True})
    before = [pdu.event for pdu in room.state().values()]
    without = [event for event in before if event["type"] != "m.room.create"]
    joined = room.propose("m.room.member", US, {"membership": "join"}, US)
    async with graph_on(database, room) as here:
        if not room.version.create_event_is_room_id:
            with pytest.raises(PeerError, match="2 create events"):
                await take_in(here, room, joined, [*before, other.create.event], [])
        with pytest.raises(PeerError, match="0 create events"):
            await take_in(here, room, joined, without, [])
        with pytest.raises(PeerError):
            await take_in(here, room, joined, before, [], version=ROOM_VERSIONS["10"])
        room.join_rule(ALICE, "invite")
        closed = [pdu.event for pdu in room.state().values()]
        with pytest.raises(PeerError, match="does not allow the join"):
            await take_in(here, room, joined, closed, everything(room))
        with pytest.raises(PeerError, match="without a room id"):
            await here.graph.import_room("a.example", room.version, state=[], auth_chain=[], event=5)
        assert await here.graph.room(room.room_id) is None
        assert here.hook.committed == []


@VERSIONS
async def test_a_room_that_was_left_is_joined_again(version: str, database: Database) -> None:
    """It continues at the new join; events in between are known from the state."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        left = await here.graph.send_event(room.room_id, "m.room.member", {"membership": "leave"}, US, US)
        room.add(left)
        room.join(CAROL)
        room.topic(ALICE, "meanwhile")
        joined = await join(here, room)
        view = await here.graph.room(room.room_id)
        assert view is not None
        assert view.forward_extremities == (joined.event_id,)
        expected = {key: pdu.event_id for key, pdu in room.state().items()}
        assert await here.graph.current_state(room.room_id) == expected
        sent = room.say(CAROL)
        assert await here.graph.receive("c.example", raw(sent)) == {sent.event_id: ACCEPTED}


async def test_concurrent_joins_of_two_users_keep_both_extremities(database: Database) -> None:
    """Both were made through other servers."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        start = room.head
        chain = everything(room)
        state = [pdu.event for pdu in room.state().values()]
        first = await take_in(here, room, room.join(US, after=start), state, chain)
        second = await take_in(here, room, room.join("@two:here.example", after=start), state, chain)
        view = await here.graph.room(room.room_id)
        assert view is not None
        assert set(view.forward_extremities) == {first.event_id, second.event_id}
        expected = {key: pdu.event_id for key, pdu in room.state().items()}
        assert await here.graph.current_state(room.room_id) == expected
