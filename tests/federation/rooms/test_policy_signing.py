"""Events of rooms that have a policy server."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from federation.client.errors import PeerRefused, PeerTimedOut, PeerUnreachable
from federation.events import Signer
from federation.events.event_signatures import add_signature
from federation.events.received import ACCEPTED, SoftFailed
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.signatures import encode_base64
from federation.rooms.policy_server import KEY_ID, parse_policy_server
from federation.rooms.policy_server import POLICY as POLICY_EVENT
from federation.rooms.policy_signing import PolicySigner
from federation.rooms.store import RoomStore
from storage.database import Database
from tests.support.graph import HERE, US, Graph, graph_on, join, raw
from tests.support.postgres import pool_on
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room, signer

POLICY, OTHER_POLICY = signer("c.example"), signer("b.example")


def policy_room(**content: Any) -> Room:
    """A room whose policy server is Carol's."""
    room = public_room("12", BOB, CAROL, **content)
    room.send("m.room.policy", ALICE, policy_content("c.example", POLICY), "")
    return room


def policy_content(server: str, policy: Signer) -> dict[str, Any]:
    return {"via": server, "public_keys": {"ed25519": encode_base64(bytes(policy.key.verify_key))}}


def agree(here: Graph, room: Room) -> None:
    def sign(event: Mapping[str, Any]) -> Any:
        signed = add_signature(event, room.version, "c.example", KEY_ID, POLICY.key)
        return {"c.example": {KEY_ID: signed["signatures"]["c.example"][KEY_ID]}}

    here.peer.policy = sign


def refuse(here: Graph) -> None:
    def sign(event: Mapping[str, Any]) -> Any:
        raise PeerRefused("c.example", 400, "M_FORBIDDEN", "spam")

    here.peer.policy = sign


async def test_local_events_are_signed_before_they_are_committed(database: Database) -> None:
    """The policy server's refusal is returned."""
    room = policy_room()
    async with graph_on(database, room) as here:
        agree(here, room)
        await join(here, room)
        sent = await here.graph.send_event(room.room_id, "m.room.message", {"body": "good"}, US)
        assert set(sent.signatures) == {HERE, "c.example"}
        refuse(here)
        with pytest.raises(MatrixError) as refused:
            await here.graph.send_event(room.room_id, "m.room.message", {"body": "bad"}, US)
        assert (refused.value.status, refused.value.errcode) == (403, "M_FORBIDDEN")
        assert "spam" in refused.value.text
        here.peer.policy = lambda event: {}
        with pytest.raises(PeerError, match="no valid signature"):
            await here.graph.send_event(room.room_id, "m.room.message", {"body": "odd"}, US)


async def test_received_events_without_the_signature_are_soft_failed(database: Database) -> None:
    """Step 7. The signature is requested before that."""
    room = policy_room()
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
    room = policy_room()
    async with graph_on(database, room) as here:
        agree(here, room)
        await join(here, room)
        sent = [room.say(BOB, str(number)) for number in range(5)]

        def silent(event: Mapping[str, Any]) -> Any:
            raise PeerError("c.example", "did not answer")

        here.peer.policy = silent
        here.peer.calls.clear()
        results = await here.graph.receive("b.example", raw(*sent))
        assert {type(one) for one in results.values()} == {SoftFailed}
        assert here.peer.asked() == ["sign"]
        assert len(here.reports) == 1


class Silent:
    """A policy server that does not answer until the end of the test."""

    def __init__(self, here: Graph) -> None:
        self.asked = asyncio.Semaphore(0)
        self.ended = asyncio.Event()
        here.peer.sign = self.sign  # type: ignore[method-assign]

    async def sign(self, server: str, event: Mapping[str, Any]) -> Any:
        self.asked.release()
        await self.ended.wait()
        raise PeerUnreachable(server, "closed the connection")


async def test_rooms_wait_for_their_policy_server_without_holding_connections(database: Database) -> None:
    """Fourteen rooms, on a database with two connections: everything else continues."""
    rooms = [policy_room(number=number) for number in range(14)]
    other = public_room("12", BOB)
    async with pool_on(database.address, maximum=2) as pool, graph_on(pool, other) as here:
        for room in (*rooms, other):
            await join(here, room)
        silent = Silent(here)
        waiting = [asyncio.create_task(here.graph.send_event(room.room_id, "m.room.message", {}, US)) for room in rooms]
        for _ in rooms:
            await silent.asked.acquire()
        local_event = await here.graph.send_event(other.room_id, "m.room.message", {"body": "x"}, US)
        sent = other.say(BOB, after=[other.add(local_event)])
        assert await here.graph.receive("b.example", raw(sent)) == {sent.event_id: ACCEPTED}
        silent.ended.set()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(result) for result in results} == {PeerUnreachable}


async def test_the_rooms_of_a_transaction_wait_concurrently(database: Database) -> None:
    """Not one after the other."""
    rooms = [policy_room(number=number) for number in range(5)]
    async with graph_on(database, rooms[0]) as here:
        for room in rooms:
            await join(here, room)
        silent = Silent(here)
        sent = [room.say(BOB) for room in rooms]
        receiving = asyncio.create_task(here.graph.receive("b.example", raw(*sent)))
        for _ in rooms:
            await silent.asked.acquire()
        silent.ended.set()
        assert {type(result) for result in (await receiving).values()} == {SoftFailed}


async def test_a_policy_server_that_did_not_answer_is_not_asked_again_for_a_while(database: Database) -> None:
    """Neither for this room nor for another one that uses it."""
    rooms = [policy_room(number=number) for number in range(2)]
    async with graph_on(database, rooms[0]) as here:
        for room in rooms:
            await join(here, room)
        silent = Silent(here)
        silent.ended.set()
        for room in (*rooms, rooms[0]):
            with pytest.raises(PeerUnreachable):
                await here.graph.send_event(room.room_id, "m.room.message", {}, US)
        await silent.asked.acquire()
        assert silent.asked.locked()


async def test_a_policy_server_has_a_timeout(database: Database) -> None:
    """After that its rooms continue without it."""
    room = policy_room()
    async with graph_on(database, room) as here:
        await join(here, room)
        silent = Silent(here)
        signing = PolicySigner(HERE, here.peer, RoomStore(database), here.reports.append, timeout=0.01)
        policy = parse_policy_server(room.state()[POLICY_EVENT])
        assert policy is not None
        with pytest.raises(PeerTimedOut):
            await signing.sign(room.say(BOB), room.version, policy)
        await silent.asked.acquire()


async def test_a_policy_server_set_while_another_one_signs_is_asked_too(database: Database) -> None:
    """The event is not sent with the signature of a policy server that the room has removed."""
    room = policy_room()
    async with graph_on(database, room) as here:
        await join(here, room)
        agree(here, room)
        sign = here.peer.policy
        servers: list[str] = []

        async def sign_and_replace(server: str, event: Mapping[str, Any]) -> Any:
            servers.append(server)
            if server == "b.example":
                signed = add_signature(event, room.version, server, KEY_ID, OTHER_POLICY.key)
                return {server: {KEY_ID: signed["signatures"][server][KEY_ID]}}
            replaced = room.send("m.room.policy", ALICE, policy_content("b.example", OTHER_POLICY), "")
            assert await here.graph.receive("a.example", raw(replaced)) == {replaced.event_id: ACCEPTED}
            return sign(event)

        here.peer.sign = sign_and_replace  # type: ignore[method-assign]
        sent = await here.graph.send_event(room.room_id, "m.room.message", {"body": "good"}, US)
        assert servers == ["c.example", "b.example"]
        assert set(sent.signatures) == {HERE, "b.example"}


async def test_an_event_signed_while_others_were_committed_is_sent(database: Database) -> None:
    """It is parallel to them in the event graph, and is not signed again."""
    room = policy_room()
    async with graph_on(database, room) as here:
        await join(here, room)
        agree(here, room)
        sign = here.peer.policy
        meanwhile: list[str] = []

        async def sign_later(server: str, event: Mapping[str, Any]) -> Any:
            if not meanwhile:
                other = room.say(BOB)
                meanwhile.append(other.event_id)
                assert await here.graph.receive("b.example", raw(other)) == {other.event_id: ACCEPTED}
            return sign(event)

        here.peer.sign = sign_later  # type: ignore[method-assign]
        sent = await here.graph.send_event(room.room_id, "m.room.message", {"body": "good"}, US)
        view = await here.graph.room(room.room_id)
        assert view is not None
        assert set(view.forward_extremities) == {sent.event_id, *meanwhile}


async def test_an_event_that_was_sent_before_is_not_signed_again(database: Database) -> None:
    """It is found by its transaction id."""
    room = policy_room()
    async with graph_on(database, room) as here:
        await join(here, room)
        agree(here, room)
        message = room.room_id, "m.room.message", {"body": "good"}, US
        first = await here.graph.send_event(*message, transaction_id="1")
        refuse(here)
        assert await here.graph.send_event(*message, transaction_id="1") == first


async def test_a_policy_server_counts_only_while_one_of_its_users_is_joined(database: Database) -> None:
    """The event that names it needs no signature."""
    room = policy_room()
    async with graph_on(database, room) as here:
        refuse(here)
        await join(here, room)
        without = room.send("m.room.policy", ALICE, {}, "", after=room.head)
        assert await here.graph.receive("a.example", raw(without)) == {without.event_id: ACCEPTED}
    room = policy_room()
    room.member(ALICE, CAROL, "ban")
    async with graph_on(database, room) as here:
        refuse(here)
        await join(here, room)
        sent = room.say(BOB)
        assert await here.graph.receive("b.example", raw(sent)) == {sent.event_id: ACCEPTED}
