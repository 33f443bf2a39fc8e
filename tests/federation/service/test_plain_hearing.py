"""What is heard without asking the rules again, and what is not."""

import asyncio
from collections.abc import Callable

import pytest

from federation.known_event import KnownEvent
from federation.pdu import Pdu
from federation.policy_server import POLICY
from federation.receipt import ACCEPTED, Dropped, Receipt, Rejected
from federation.room_event import everything
from storage.database import Database
from storage.incoming_transactions import Answered
from tests.support.graph import HERE, Graph, graph_on, join, raw
from tests.support.postgres import pool_on
from tests.support.rooms import ALICE, BOB, Room, public_room

VERSIONS = pytest.mark.parametrize("version", ["6", "11", "12"])


class Heard:
    """What becomes of events that come one by one, and which of them were heard plainly."""

    def __init__(self, here: Graph) -> None:
        self._graph = here.graph
        self._number = 0
        self._plainly: list[str] = []
        writing = self._graph._reception._writing
        hear = writing.hear_plainly

        async def note(event: KnownEvent, origin: str, answer: Callable[[], Answered]) -> bool:
            is_written = await hear(event, origin, answer)
            if is_written:
                self._plainly.append(event.pdu.event_id)
            return is_written

        writing.hear_plainly = note  # type: ignore[method-assign]

    async def __call__(self, pdu: Pdu, origin: str = "b.example") -> tuple[Receipt, bool]:
        self._number += 1
        answered = Answered(origin, str(self._number), b"{}")
        results = await self._graph.receive(origin, raw(pdu), answered=lambda _: answered)
        return results[pdu.event_id], pdu.event_id in self._plainly


@VERSIONS
async def test_messages_of_those_who_may_speak_are_heard_plainly(version: str, database: Database) -> None:
    """Each with its place in the stream, and the room goes on from there."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        heard, begin = Heard(here), await here.graph.stream.last_position()
        said = [room.say(BOB), room.say(ALICE), room.say(BOB)]
        for pdu in said:
            assert await heard(pdu) == (ACCEPTED, True)
        assert [entry.pdu for entry in await here.graph.stream.read(begin)] == said
        ours = await here.graph.send_event(room.room_id, "m.room.message", {"body": "x"}, f"@us:{HERE}")
        assert ours.prev_events == (said[-1].event_id,)
        assert await here.graph.state_at(ours.event_id) == await here.graph.state_at(said[0].event_id)


async def test_a_sender_who_was_believed_before_is_not_believed_without_a_signature(
    database: Database,
) -> None:
    """Nor is a content that nobody has hashed: the event is taken in without it."""
    room = public_room("11", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        heard, number = here.graph.receive, iter(range(9))

        async def receive(event: object) -> dict[str, Receipt]:
            answered = Answered("b.example", str(next(number)), b"{}")
            return dict(await heard("b.example", [event], answered=lambda _: answered))

        first, second = room.say(BOB), room.say(BOB)
        assert await receive(first.event) == {first.event_id: ACCEPTED}
        forged = {**second.event, "signatures": {"b.example": first.signatures["b.example"]}}
        ((_, receipt),) = (await receive(forged)).items()
        assert str(receipt).startswith("step 2")
        assert await receive({**second.event, "content": {"body": "other"}}) == {second.event_id: ACCEPTED}
        assert (await here.graph.events([second.event_id]))[second.event_id].content == {}
        here.keys.keys.pop("b.example")
        third = room.say(BOB)
        ((_, receipt),) = (await receive(third.event)).items()
        assert str(receipt) == "step 2, signature checks: no key of b.example is to be had"


async def test_what_one_may_say_another_may_not(database: Database) -> None:
    """It is asked for each sender and each type, and again when the state is another one."""
    room = public_room("11", BOB)
    levels = room.state()["m.room.power_levels", ""].content
    room.send("m.room.power_levels", ALICE, {**levels, "events": {"m.high": 60}}, "")
    async with graph_on(database, room) as here:
        await join(here, room)
        heard = Heard(here)
        assert await heard(room.send("m.high", ALICE, {})) == (ACCEPTED, True)
        high = room.propose("m.high", BOB, {})
        receipt, plainly = await heard(high)
        assert isinstance(receipt, Rejected)
        assert not plainly
        assert await heard(room.say(BOB)) == (ACCEPTED, True)
        assert await heard(room.member(ALICE, BOB, "ban"), "a.example") == (ACCEPTED, False)
        receipt, plainly = await heard(room.propose("m.room.message", BOB, {"body": "no"}))
        assert isinstance(receipt, Rejected)
        assert not plainly
        assert await heard(room.say(ALICE)) == (ACCEPTED, True)


@pytest.mark.parametrize("type_", ["m.room.member", "m.room.power_levels", "m.room.third_party_invite"])
async def test_what_is_judged_by_its_content_is_never_heard_plainly(type_: str, database: Database) -> None:
    """One good message of such a type says nothing of the next."""
    room = public_room("11", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        heard = Heard(here)
        for content in ({}, {"users": {ALICE: 100}}, {"users": "none"}):
            event = room.propose(type_, ALICE, content)
            receipt, plainly = await heard(event)
            assert not plainly
            room.add(event, rejected=isinstance(receipt, Rejected))


async def test_a_message_that_rests_on_other_events_is_judged_by_them(database: Database) -> None:
    """What the same sender said with the right ones does not help one with others, or with none."""
    room = public_room("11", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        heard = Heard(here)
        assert await heard(room.say(BOB)) == (ACCEPTED, True)
        create = room.create
        for auth in ([], [create], [create, room.state()["m.room.join_rules", ""]]):
            bad = room.propose("m.room.message", BOB, {"body": "x"}, auth=auth)
            receipt, plainly = await heard(bad)
            assert isinstance(receipt, Rejected)
            assert not plainly


async def test_redactions_and_state_go_the_longer_way(database: Database) -> None:
    """More comes of them."""
    room = public_room("11", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        heard, said = Heard(here), room.say(BOB)
        assert await heard(said) == (ACCEPTED, True)
        redaction = room.send("m.room.redaction", BOB, {"redacts": said.event_id})
        assert await heard(redaction) == (ACCEPTED, False)
        assert await heard(room.topic(ALICE, "Soup")) == (ACCEPTED, False)
        (shown,) = await here.graph.shown_to_people([said])
        assert shown.content == {}


async def test_forks_go_the_longer_way(database: Database) -> None:
    """And what follows both ends; after that it is plain again."""
    room = public_room("11", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        heard, start = Heard(here), room.head
        left, right = room.say(ALICE, after=start), room.say(BOB, after=start)
        assert await heard(left) == (ACCEPTED, True)
        assert await heard(right) == (ACCEPTED, False)
        assert await heard(room.say(BOB, after=[left, right])) == (ACCEPTED, False)
        assert await heard(room.say(BOB)) == (ACCEPTED, True)


async def test_whom_the_room_keeps_out_is_not_heard(database: Database) -> None:
    """Also who was heard before."""
    room = public_room("11", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        heard = Heard(here)
        assert await heard(room.say(BOB)) == (ACCEPTED, True)
        acl = room.send("m.room.server_acl", ALICE, {"allow": ["*"], "deny": ["b.*"]}, "")
        assert await heard(acl, "a.example") == (ACCEPTED, False)
        said = room.say(BOB)
        kept_out = Dropped("the room's m.room.server_acl keeps your server out")
        assert await heard(said) == (kept_out, False)
        assert await heard(said, "a.example") == (ACCEPTED, True)


async def test_a_room_with_a_policy_server_asks_it_of_each_event(database: Database) -> None:
    """Whether or not it is in the room."""
    room = public_room("11", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        heard = Heard(here)
        assert await heard(room.say(BOB)) == (ACCEPTED, True)
        policy = room.send(POLICY[0], ALICE, {"via": "c.example", "public_key": "x"}, POLICY[1])
        assert await heard(policy, "a.example") == (ACCEPTED, False)
        assert await heard(room.say(BOB)) == (ACCEPTED, False)


async def test_after_a_rejection_the_rules_are_asked_again(database: Database) -> None:
    """An event that was accepted before its place was known may be rejected where it stands."""
    room = public_room("11", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        heard, plain = Heard(here), here.graph._reception._plain
        assert await heard(room.say(BOB)) == (ACCEPTED, True)
        forbidden = room.propose("m.room.power_levels", BOB, {"users": {BOB: 100}}, "")
        before = here.graph._store.rejections
        assert isinstance((await heard(forbidden))[0], Rejected)
        assert here.graph._store.rejections > before
        assert {remembered.rejections for remembered in plain._allowed._entries.values()} == {before}
        member = room.state()["m.room.member", BOB].event_id
        known = here.graph._store.remembered_event(member)
        assert known is not None
        here.graph._store.remember_event(KnownEvent(known.pdu, "rejected", "rule: text"))
        receipt, plainly = await heard(room.say(BOB))
        assert isinstance(receipt, Rejected)
        assert not plainly


async def test_what_is_no_message_is_not_heard_plainly(database: Database) -> None:
    """Rubbish, an event of an unknown room, one with a wrong signature."""
    room: Room = public_room("11", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        plain = here.graph._reception._plain
        said = room.say(BOB).event
        answered = Answered("b.example", "1", b"{}")
        forged = {**said, "signatures": {"b.example": {"ed25519:test": "AAAA"}}}
        others = (
            {**said, "room_id": "!other:b.example"},
            {**said, "room_id": [1]},
            {**said, "prev_events": [[]]},
        )
        for rubbish in (5, None, [], {}, forged, *others):
            assert await plain.hear("b.example", rubbish, lambda _: answered) is None
        assert await plain.hear("b.example", said, lambda _: answered) is not None


@pytest.mark.parametrize("what", ["written", "another generation", "a repeated transaction"])
async def test_a_message_is_foreseen_while_it_is_written(
    database: Database, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Before it is known to anybody; where it comes to nothing nobody reads it."""
    monkeypatch.setattr("federation.service.followed_stream.FollowedStream.LONGEST_WAIT", 3_600.0)
    room = public_room("11", BOB)
    async with graph_on(database, room) as here, pool_on(database.address) as pool:
        await join(here, room)
        store, plain, stream = here.graph._store, here.graph._reception._plain, here.graph.stream
        first, second = room.say(BOB), room.say(BOB)
        assert await plain.hear("b.example", first.event, lambda _: Answered("b.example", "1", b"{}"))
        end = await stream.last_position()
        await stream.read_on(end)
        if what == "another generation":
            async with graph_on(pool, room) as there:
                await there.graph.send_event(room.room_id, "m.room.message", {}, f"@us:{HERE}")
            end = await stream.last_position()
            await stream.read_on(end)
        number = "1" if what == "a repeated transaction" else "2"
        foreseen: list[tuple[str, bool]] = []

        def note(pdu: Pdu) -> None:
            foreseen.append((pdu.event_id, store.remembered_event(pdu.event_id) is None))

        waiting = asyncio.create_task(stream.follow(end, 9, everything, 9, note))
        while not stream._waiting:
            await asyncio.sleep(0)
        heard = await plain.hear("b.example", second.event, lambda _: Answered("b.example", number, b"{}"))
        assert foreseen == [(second.event_id, True)]
        if what == "written":
            assert heard == {second.event_id: ACCEPTED}
            assert [entry.pdu for entry in (await waiting).entries] == [second]
        else:
            assert heard is None
            assert store.remembered_event(second.event_id) is None
            assert await stream.last_position() == end
            assert not waiting.done()
            waiting.cancel()
            await asyncio.wait({waiting})
