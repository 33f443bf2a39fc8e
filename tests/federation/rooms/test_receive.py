"""Receiving PDUs: duplicates, replays, reordering, forks, and peers that lie."""

import asyncio
import random
from typing import Any

import pytest

from federation.events.event_signatures import add_signature
from federation.events.received import ACCEPTED, Dropped, Rejected, SoftFailed
from federation.matrix.errors import MatrixError
from federation.rooms.receive import MAX_REFUSALS, IncomingTransaction
from storage.database import Database
from storage.federation.incoming_transactions import TransactionResponse
from tests.support.graph import HERE, US, Graph, graph_on, join, raw
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room, signer

VERSIONS = pytest.mark.parametrize("version", ["6", "11", "12"])


async def extremities(here: Graph, room: Room) -> set[str]:
    view = await here.graph.room(room.room_id)
    assert view is not None
    return set(view.forward_extremities)


async def stream(here: Graph) -> list[str]:
    return [entry.event.event_id for entry in (await here.graph.stream.read(0, 1000)).entries]


@VERSIONS
async def test_a_repeated_event_is_received_once(version: str, database: Database) -> None:
    """In one transaction, in a later one, and from another server."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        message = room.say(ALICE)
        for origin in ("a.example", "b.example"):
            results = await here.graph.receive(origin, raw(message, message))
            assert results == {message.event_id: ACCEPTED}
        assert (await stream(here)).count(message.event_id) == 1
        assert here.hook.ids.count(message.event_id) == 1


@VERSIONS
async def test_the_order_of_a_transaction_does_not_matter(version: str, database: Database) -> None:
    """It is sorted, and its events are not requested."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        messages = [room.say(ALICE if number % 2 else BOB, str(number)) for number in range(20)]
        shuffled = random.Random(1).sample(messages, 20)
        results = await here.graph.receive("a.example", raw(*shuffled))
        assert set(results.values()) == {ACCEPTED}
        assert (await stream(here))[-20:] == [pdu.event_id for pdu in messages]
        assert await extremities(here, room) == {messages[-1].event_id}
        assert here.peer.calls == []
        assert here.counts.resolutions == 0


@VERSIONS
async def test_a_fork_of_messages_needs_no_state_resolution(version: str, database: Database) -> None:
    """All branches have the same state."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        start = room.head
        ends = [room.say(ALICE, str(number), after=start) for number in range(8)]
        await here.graph.receive("a.example", raw(*ends))
        assert await extremities(here, room) == {pdu.event_id for pdu in ends}
        merged = room.say(BOB, after=ends)
        await here.graph.receive("a.example", raw(merged))
        assert await extremities(here, room) == {merged.event_id}
        assert here.counts.resolutions == 0
        assert await here.graph.state_at(merged.event_id) == await here.graph.state_at(ends[0].event_id)


@VERSIONS
async def test_a_fork_of_the_state_is_resolved(version: str, database: Database) -> None:
    """The result does not depend on the order, and is cached."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        start = room.head
        banned = room.member(ALICE, BOB, "ban", after=start)
        topic = room.topic(ALICE, "other", after=start)
        merged = room.say(ALICE, after=[banned, topic])
        again = room.say(ALICE, "again", after=[banned, topic])
        await here.graph.receive("a.example", raw(topic))
        await here.graph.receive("a.example", raw(banned))
        results = await here.graph.receive("a.example", raw(merged, again))
        assert set(results.values()) == {ACCEPTED}
        expected = {key: pdu.event_id for key, pdu in room.state([merged]).items()}
        assert await here.graph.state_at(merged.event_id) == expected
        assert await here.graph.current_state(room.room_id) == expected
        assert here.counts.resolutions == 1
        assert await here.graph.servers_in_room(room.room_id) == {"a.example", HERE}


async def test_state_that_resolution_changes_is_published(database: Database) -> None:
    """A topic that loses against a ban on another branch is reset, and readers get the change."""
    room = public_room("11", BOB)
    old = room.topic(ALICE, "old")
    async with graph_on(database, room) as here:
        await join(here, room)
        start = room.head
        of_bob = room.topic(BOB, "Bob's", after=start)
        banned = room.member(ALICE, BOB, "ban", after=start)
        await here.graph.receive("b.example", raw(of_bob))
        await here.graph.receive("a.example", raw(banned))
        entries = (await here.graph.stream.read(0)).entries
        assert [(entry.kind, entry.event.event_id) for entry in entries[-3:]] == [
            ("timeline", of_bob.event_id),
            ("timeline", banned.event_id),
            ("state", old.event_id),
        ]


@VERSIONS
async def test_a_rejected_event_changes_nothing_and_its_children_may_be_valid(version: str, database: Database) -> None:
    """It is stored with its rule, and a repeated one gets the same result."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        head = room.head[0]
        forbidden = room.propose("m.room.power_levels", BOB, {"users": {BOB: 100}}, "")
        room.add(forbidden, rejected=True)
        child = room.say(ALICE, after=[forbidden])
        for _ in range(2):
            results = await here.graph.receive("b.example", raw(child, forbidden))
            rejected = results[forbidden.event_id]
            assert isinstance(rejected, Rejected)
            assert rejected.rule
            assert results[child.event_id] == ACCEPTED
        state = await here.graph.state_after(forbidden.event_id)
        assert state is not None
        assert state == await here.graph.state_after(head.event_id)
        # The child's ancestors include those of its parent.
        assert await extremities(here, room) == {child.event_id}
        assert forbidden.event_id not in await stream(here)


@VERSIONS
async def test_an_event_from_the_past_of_a_banned_user_is_soft_failed(version: str, database: Database) -> None:
    """It is not published, and local events do not follow it; its children may be accepted."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        before = room.head
        banned = room.member(ALICE, BOB, "ban")
        await here.graph.receive("a.example", raw(banned))
        late = room.propose("m.room.message", BOB, {"body": "late"}, after=before)
        results = await here.graph.receive("b.example", raw(late))
        assert isinstance(results[late.event_id], SoftFailed)
        assert late.event_id not in await stream(here)
        assert await extremities(here, room) == {banned.event_id}
        assert (await here.graph.events([late.event_id]))[late.event_id] == late
        room.add(late)
        child = room.say(ALICE, after=[late, banned])
        assert await here.graph.receive("a.example", raw(child)) == {child.event_id: ACCEPTED}
        assert await extremities(here, room) == {child.event_id}


async def test_the_create_event_of_a_version_12_room_is_ignored(database: Database) -> None:
    """It has no room id, and rooms become known by joining them."""
    room = public_room("12")
    async with graph_on(database, room) as here:
        assert await here.graph.receive("a.example", raw(room.create)) == {}
        assert await here.graph.room(room.room_id) is None


async def test_events_of_unknown_rooms_are_dropped(database: Database) -> None:
    """All other events of the transaction are received."""
    known, unknown = public_room("12", BOB), public_room("12", BOB, another=True)
    async with graph_on(database, known) as here:
        await join(here, known)
        message, elsewhere = known.say(ALICE), unknown.say(ALICE)
        results = await here.graph.receive("a.example", [*raw(elsewhere), *raw(message), 17, {"room_id": 5}, {}])
        assert results == {
            message.event_id: ACCEPTED,
            elsewhere.event_id: Dropped("this server does not know the room"),
        }


async def test_events_of_a_room_that_was_left_are_dropped(database: Database) -> None:
    """Its state is not known any more."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        left = await here.graph.send_event(room.room_id, "m.room.member", {"membership": "leave"}, US, US)
        room.add(left)
        message = room.say(ALICE)
        results = await here.graph.receive("a.example", raw(message))
        assert results == {message.event_id: Dropped("this server is not in the room")}


async def test_events_of_a_server_that_the_acl_denies_are_dropped(database: Database) -> None:
    """PDU by PDU: the same transaction may contain events of other rooms."""
    room = public_room("12", BOB)
    room.send("m.room.server_acl", ALICE, {"allow": ["*"], "deny": ["b.*"]}, "")
    async with graph_on(database, room) as here:
        await join(here, room)
        message = room.say(BOB)
        results = await here.graph.receive("b.example", raw(message))
        assert results == {message.event_id: Dropped("the room's m.room.server_acl denies your server")}
        assert await here.graph.receive("a.example", raw(message)) == {message.event_id: ACCEPTED}


async def test_a_later_acl_denies_a_server_whose_events_were_accepted(database: Database) -> None:
    """It applies from the next event on."""
    room = public_room("11", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        first = room.say(BOB)
        assert await here.graph.receive("b.example", raw(first)) == {first.event_id: ACCEPTED}
        acl = room.send("m.room.server_acl", ALICE, {"allow": ["*"], "deny": ["b.*"]}, "")
        assert await here.graph.receive("a.example", raw(acl)) == {acl.event_id: ACCEPTED}
        second = room.say(BOB)
        results = await here.graph.receive("b.example", raw(second))
        assert results == {second.event_id: Dropped("the room's m.room.server_acl denies your server")}


async def test_a_second_create_event_is_dropped(database: Database) -> None:
    """Before version 12 its server could create any number of them."""
    room = public_room("11", BOB)
    other = Room("11", **{"m.federate": False})
    async with graph_on(database, room) as here:
        await join(here, room)
        results = await here.graph.receive("a.example", raw(other.create, room.create))
        assert results[other.create.event_id] == Dropped("the room has another create event")


@VERSIONS
async def test_forged_events_are_dropped_and_changed_ones_redacted(version: str, database: Database) -> None:
    """A wrong signature, an unknown key, changed content."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        honest, forged, unknown = room.say(ALICE, "true"), room.say(BOB), room.say(ALICE)
        changed = {**honest.event, "content": {"body": "false"}}
        wrong = {**forged.event, "signatures": {"b.example": honest.event["signatures"]["a.example"]}}
        results = await here.graph.receive("a.example", [changed, wrong])
        assert results[honest.event_id] == ACCEPTED
        assert str(results[forged.event_id]).startswith("step 2")
        kept = (await here.graph.events([honest.event_id]))[honest.event_id]
        assert kept.content == {}
        here.keys.keys.pop("a.example")
        results = await here.graph.receive("a.example", raw(unknown))
        assert results[unknown.event_id] == Dropped("step 2, signature checks: no key of a.example is available")


async def test_of_two_copies_the_verified_one_counts(database: Database) -> None:
    """Signatures are not part of an event's id."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        message = room.say(ALICE)
        forged = {**message.event, "signatures": {}}
        results = await here.graph.receive("a.example", [*raw(message), forged])
        assert results == {message.event_id: ACCEPTED}


async def test_events_of_a_concurrent_transaction_are_waited_for(database: Database) -> None:
    """They are not requested from the peer."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        chain = [room.say(ALICE, str(number)) for number in range(60)]
        first, second = chain[:50], chain[50:]
        results = await asyncio.gather(
            here.graph.receive("a.example", raw(*first)), here.graph.receive("b.example", raw(*second))
        )
        assert {str(receipt) for one in results for receipt in one.values()} == {str(ACCEPTED)}
        assert here.peer.calls == []


async def test_the_response_is_committed_with_the_events(database: Database) -> None:
    """If the response cannot be made, nothing is committed."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        message = room.say(ALICE)

        def fail(results: Any) -> TransactionResponse:
            assert results == {message.event_id: ACCEPTED}
            raise KeyError("no")

        with pytest.raises(KeyError):
            await here.graph.receive_transaction("a.example", raw(message), IncomingTransaction("1", fail))
        assert await here.graph.events([message.event_id]) == {}
        assert here.counts.received == []
        assert await here.graph.receive("a.example", raw(message)) == {message.event_id: ACCEPTED}
        assert here.counts.received == ["accepted"]


@VERSIONS
async def test_a_submitted_membership_is_sent_to_the_room(version: str, database: Database) -> None:
    """To all servers of the room but this one and the submitting one. Submitting it again changes nothing."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        joined = room.propose("m.room.member", CAROL, {"membership": "join"}, CAROL)
        for _ in range(2):
            assert await here.graph.accept_membership("c.example", room.room_id, joined.event) == joined
        (committed_event,) = [one for one in here.hook.committed if one.pdu == joined]
        assert committed_event.destinations == {"a.example", "b.example"}
        assert await here.graph.is_server_in_room(room.room_id, "c.example")


@VERSIONS
async def test_a_submitted_membership_that_is_not_allowed_is_refused(version: str, database: Database) -> None:
    """With the rule; as are one of another room and a forged one."""
    room = public_room(version, BOB)
    room.member(ALICE, CAROL, "ban")
    async with graph_on(database, room) as here:
        await join(here, room)
        banned = room.propose("m.room.member", CAROL, {"membership": "join"}, CAROL)
        with pytest.raises(MatrixError, match="rule"):
            await here.graph.accept_membership("c.example", room.room_id, banned.event)
        with pytest.raises(MatrixError, match="step 2"):
            await here.graph.accept_membership("c.example", room.room_id, {**banned.event, "depth": 1})
        with pytest.raises(MatrixError, match="404"):
            await here.graph.accept_membership("c.example", "!other:a.example", banned.event)


async def test_a_local_invite_that_another_server_has_signed(database: Database) -> None:
    """It is sent to all servers of the room."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        invite = room.propose("m.room.member", US, {"membership": "invite"}, CAROL)
        other = signer("c.example")
        signed = add_signature(invite.event, room.version, other.server, other.key_id, other.key)
        pdu = await here.graph.accept_membership(HERE, room.room_id, signed)
        assert set(pdu.signatures) == {HERE, "c.example"}
        assert here.hook.committed[-1].destinations == {"a.example", "b.example"}


async def test_events_of_an_unreachable_server_are_refused_for_a_while(database: Database) -> None:
    """Events that follow missing ones would not be sent again after a 200. After some attempts the server is
    assumed to be unreachable for good, and its other events are received."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        start = room.head
        good = room.say(ALICE, after=start)
        orphan = room.say(BOB, after=[room.say(BOB, after=start)])
        dropped = Dropped(f"its prev_event {orphan.prev_events[0]} is not available")
        here.peer.unreachable = {"missing_events"}
        for _ in range(MAX_REFUSALS):
            with pytest.raises(MatrixError, match="503 M_UNKNOWN"):
                await here.graph.receive("b.example", raw(orphan, good))
        with pytest.raises(MatrixError, match="503 M_UNKNOWN"):
            await here.graph.receive("a.example", raw(orphan))
        for _ in range(2):
            results = await here.graph.receive("b.example", raw(orphan, good))
            assert results == {orphan.event_id: dropped, good.event_id: ACCEPTED}
        # After a success the attempts are counted anew.
        here.peer.unreachable = set()
        assert set((await here.graph.receive("b.example", raw(orphan))).values()) == {ACCEPTED}
        here.peer.unreachable = {"missing_events"}
        another = room.say(BOB, after=[room.say(BOB, after=start)])
        with pytest.raises(MatrixError, match="503 M_UNKNOWN"):
            await here.graph.receive("b.example", raw(another))


async def test_a_submitted_membership_is_not_refused_while_its_server_is_unreachable(database: Database) -> None:
    """403 would be final."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        lost = room.say(BOB)
        joined = room.propose("m.room.member", CAROL, {"membership": "join"}, CAROL, after=[lost])
        here.peer.unreachable = {"missing_events"}
        with pytest.raises(MatrixError, match="503 M_UNKNOWN"):
            await here.graph.accept_membership("c.example", room.room_id, joined.event)
        here.peer.unreachable = set()
        assert await here.graph.accept_membership("c.example", room.room_id, joined.event) == joined
