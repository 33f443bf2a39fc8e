"""Events in a room that has a policy server."""

from collections.abc import Mapping
from typing import Any

import pytest

from federation.errors import MatrixError, PeerError
from federation.pdu.event_signatures import add_signature
from federation.peer_errors import PeerRefused
from federation.policy_server import KEY_ID
from federation.receipt import ACCEPTED, SoftFailed
from federation.signatures import encode_base64
from storage.database import Database
from tests.support.graph import HERE, US, Graph, graph_on, join, raw
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room, signer

POLICY = signer("c.example")


def watched_room() -> Room:
    """Carol's server decides what is said in it."""
    room = public_room("12", BOB, CAROL)
    content = {"via": "c.example", "public_keys": {"ed25519": encode_base64(bytes(POLICY.key.verify_key))}}
    room.send("m.room.policy", ALICE, content, "")
    return room


def agree(here: Graph, room: Room) -> None:
    def sign(event: Mapping[str, Any]) -> Any:
        signed = add_signature(event, room.version, "c.example", KEY_ID, POLICY.key)
        return {"c.example": {KEY_ID: signed["signatures"]["c.example"][KEY_ID]}}

    here.peer.policy = sign


def refuse(here: Graph) -> None:
    def sign(event: Mapping[str, Any]) -> Any:
        raise PeerRefused("c.example", 400, "M_FORBIDDEN", "spam")

    here.peer.policy = sign


async def test_our_events_are_signed_there_first(database: Database) -> None:
    """And are refused as they are refused there."""
    room = watched_room()
    async with graph_on(database, room) as here:
        agree(here, room)
        await join(here, room)
        said = await here.graph.send_event(room.room_id, "m.room.message", {"body": "good"}, US)
        assert set(said.signatures) == {HERE, "c.example"}
        refuse(here)
        with pytest.raises(MatrixError) as refused:
            await here.graph.send_event(room.room_id, "m.room.message", {"body": "bad"}, US)
        assert (refused.value.status, refused.value.errcode) == (403, "M_FORBIDDEN")
        assert "spam" in refused.value.text
        here.peer.policy = lambda event: {}
        with pytest.raises(PeerError, match="without a signature"):
            await here.graph.send_event(room.room_id, "m.room.message", {"body": "odd"}, US)


async def test_events_of_others_without_it_fail_softly(database: Database) -> None:
    """Step 7. A fresh signature is asked for before that."""
    room = watched_room()
    async with graph_on(database, room) as here:
        agree(here, room)
        await join(here, room)
        good, bad = room.say(BOB, "good"), room.say(BOB, "bad")
        assert await here.graph.receive("b.example", raw(good)) == {good.event_id: ACCEPTED}
        kept = (await here.graph.events([good.event_id]))[good.event_id]
        assert set(kept.signatures) == {"b.example", "c.example"}
        refuse(here)
        result = (await here.graph.receive("b.example", raw(bad)))[bad.event_id]
        assert result == SoftFailed("step 7", "the room's policy server, c.example, has not signed it")


async def test_a_policy_server_that_does_not_answer_is_asked_once(database: Database) -> None:
    """Not for each event of the transaction."""
    room = watched_room()
    async with graph_on(database, room) as here:
        agree(here, room)
        await join(here, room)
        said = [room.say(BOB, str(number)) for number in range(5)]

        def silent(event: Mapping[str, Any]) -> Any:
            raise PeerError("c.example", "did not answer")

        here.peer.policy = silent
        here.peer.calls.clear()
        results = await here.graph.receive("b.example", raw(*said))
        assert {type(one) for one in results.values()} == {SoftFailed}
        assert here.peer.asked() == ["sign"]
        assert len(here.reports) == 1


async def test_it_counts_only_while_somebody_of_it_is_joined(database: Database) -> None:
    """And the event that names it needs no signature."""
    room = watched_room()
    async with graph_on(database, room) as here:
        refuse(here)
        await join(here, room)
        without = room.send("m.room.policy", ALICE, {}, "", after=room.head)
        assert await here.graph.receive("a.example", raw(without)) == {without.event_id: ACCEPTED}
    room = watched_room()
    room.member(ALICE, CAROL, "ban")
    async with graph_on(database, room) as here:
        refuse(here)
        await join(here, room)
        said = room.say(BOB)
        assert await here.graph.receive("b.example", raw(said)) == {said.event_id: ACCEPTED}
