"""Events of our own: a chain, allowed by the rules, sent to whoever must hear of them."""

import asyncio
from itertools import pairwise

import pytest

from federation.events import Pdu
from federation.events.event_signatures import hash_and_sign
from federation.events.format import MAX_OWN_PREV_EVENTS
from federation.events.received import ACCEPTED
from federation.events.room_event import NewEvent
from federation.matrix.errors import MatrixError
from federation.matrix.room_version import ROOM_VERSIONS
from storage.database import Database
from tests.support.graph import HERE, US, Graph, graph_on, join, raw
from tests.support.postgres import pool_on
from tests.support.rooms import ALICE, BOB, public_room, signer

THEM = f"@them:{HERE}"


async def test_events_that_are_sent_at_once_form_a_chain(database: Database) -> None:
    """One prev_event each, so that no peer has a reason to ask for states; many share a commit."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        made = await asyncio.gather(
            *(here.graph.send_event(room.room_id, "m.room.message", {"body": str(n)}, US) for n in range(120))
        )
        assert [pdu.content["body"] for pdu in made] == [str(n) for n in range(120)]
        for before, after in pairwise(made):
            assert after.prev_events == (before.event_id,)
            assert after.depth == before.depth + 1
        view = await here.graph.room(room.room_id)
        assert view is not None
        assert view.generation < 20
        assert here.counts.sent == 120
        assert {one.destinations for one in here.hook.committed[1:]} == {
            frozenset({"a.example", "b.example"})
        }
        for pdu in made[::40]:
            assert await here.graph.state_at(pdu.event_id) == await here.graph.current_state(room.room_id)


async def test_an_event_that_the_rules_refuse_is_no_harm_to_others(database: Database) -> None:
    """Whoever sends it is told the rule."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        good, bad, strange = await asyncio.gather(
            here.graph.send_event(room.room_id, "m.room.message", {"body": "good"}, US),
            here.graph.send_event(room.room_id, "m.room.topic", {"topic": "bad"}, US, ""),
            here.graph.send_event(room.room_id, "m.room.message", {"body": 1.5}, US),
            return_exceptions=True,
        )
        assert isinstance(good, Pdu)
        assert isinstance(bad, MatrixError)
        assert (bad.status, bad.errcode) == (403, "M_FORBIDDEN")
        assert "power level" in bad.text
        assert isinstance(strange, MatrixError)
        assert strange.errcode == "M_BAD_JSON"
        for nowhere in ("!nowhere:a.example", "!\0:a.example", "nowhere"):
            with pytest.raises(MatrixError, match="M_NOT_FOUND"):
                await here.graph.send_event(nowhere, "m.room.message", {}, US)
            with pytest.raises(MatrixError, match="M_NOT_FOUND"):
                await here.graph.prepare_event(nowhere, NewEvent("m.room.message", US, {}))


async def test_state_that_another_process_has_written_counts(database: Database) -> None:
    """An event that was made for the state before is not written."""
    async with (
        graph_on(database, public_room("12")) as here,
        pool_on(database.address) as pool,
        graph_on(pool, public_room("12")) as there,
    ):
        room_id = await own_room(here)
        await here.graph.send_event(room_id, "m.room.member", {"membership": "join"}, THEM, THEM)
        await here.graph.send_event(room_id, "m.room.message", {}, THEM)
        left = await there.graph.send_event(room_id, "m.room.member", {"membership": "leave"}, THEM, THEM)
        with pytest.raises(MatrixError, match="M_FORBIDDEN"):
            await here.graph.send_event(room_id, "m.room.message", {}, THEM)
        view = await here.graph.room(room_id)
        assert view is not None
        assert view.forward_extremities == (left.event_id,)


async def test_of_events_that_are_sent_together_only_the_bad_one_is_refused(database: Database) -> None:
    """One that has no canonical form, and one that is sent twice."""
    async with graph_on(database, public_room("12")) as here:
        room_id = await own_room(here)
        good, bad, again = await asyncio.gather(
            send_as(here, room_id, "x", "1"),
            here.graph.send_event(room_id, "m.room.message", {"n": 1.5}, US),
            send_as(here, room_id, "x", "1"),
            return_exceptions=True,
        )
        assert isinstance(bad, MatrixError)
        assert isinstance(good, Pdu)
        assert again == good


async def test_who_is_banned_still_hears_of_it(database: Database) -> None:
    """Recipients are the servers in the state before the event."""
    async with graph_on(database, public_room("12")) as here:
        create, *_ = await here.graph.create_room(
            ROOM_VERSIONS["12"],
            [
                NewEvent("m.room.create", US, {}, ""),
                NewEvent("m.room.member", US, {"membership": "join"}, US),
                NewEvent("m.room.join_rules", US, {"join_rule": "public"}, ""),
            ],
        )
        template = await here.graph.prepare_event(
            create.room_id, NewEvent("m.room.member", BOB, {"membership": "join"}, BOB)
        )
        bob = signer("b.example")
        joined = hash_and_sign(template, ROOM_VERSIONS["12"], bob.server, bob.key_id, bob.key)
        await here.graph.accept_membership("b.example", create.room_id, joined)
        assert here.hook.committed[-1].destinations == frozenset()
        await here.graph.send_event(create.room_id, "m.room.member", {"membership": "ban"}, US, BOB)
        assert here.hook.committed[-1].destinations == {"b.example"}
        await here.graph.send_event(create.room_id, "m.room.message", {}, US)
        assert here.hook.committed[-1].destinations == frozenset()
        assert await here.graph.servers_in_room(create.room_id) == {HERE}


async def test_a_template_is_what_would_be_sent_and_sends_nothing(database: Database) -> None:
    """The rules are asked: nobody is given a template in vain."""
    room = public_room("11", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        before = await here.graph.room(room.room_id)
        event = NewEvent("m.room.member", "@new:d.example", {"membership": "join"}, "@new:d.example")
        template = await here.graph.prepare_event(room.room_id, event)
        assert template["prev_events"] == [room.head[0].event_id]
        assert not {"hashes", "signatures"} & template.keys()
        assert await here.graph.room(room.room_id) == before
        with pytest.raises(MatrixError, match="M_FORBIDDEN"):
            await here.graph.prepare_event(
                room.room_id, NewEvent("m.room.member", ALICE, {"membership": "knock"}, ALICE)
            )


async def test_a_wide_fork_is_healed_by_ten_at_a_time(database: Database) -> None:
    """More would make resolving the state dear for everybody."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        start = room.head
        ends = [room.say(ALICE, str(number), after=start) for number in range(14)]
        results = await here.graph.receive("a.example", raw(*ends))
        assert set(results.values()) == {ACCEPTED}
        first = await here.graph.send_event(room.room_id, "m.room.message", {}, US)
        assert len(first.prev_events) == MAX_OWN_PREV_EVENTS
        second = await here.graph.send_event(room.room_id, "m.room.message", {}, US)
        assert len(second.prev_events) == 5
        assert first.event_id in second.prev_events


async def test_a_room_that_cannot_be_made_is_not_there(database: Database) -> None:
    """All or nothing."""
    async with graph_on(database, public_room("12")) as here:
        events = [
            NewEvent("m.room.create", US, {}, ""),
            NewEvent("m.room.member", US, {"membership": "join"}, US),
            NewEvent("m.room.topic", "@other:here.example", {}, ""),
        ]
        with pytest.raises(MatrixError, match="M_FORBIDDEN"):
            await here.graph.create_room(ROOM_VERSIONS["11"], events, room_id=f"!mine:{HERE}")
        assert await here.graph.room(f"!mine:{HERE}") is None
        assert here.hook.committed == []


async def test_whoever_stops_waiting_does_not_stop_the_event(database: Database) -> None:
    """It may have been committed already; `close` waits for it."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        sending = asyncio.create_task(
            here.graph.send_event(room.room_id, "m.room.message", {"body": "x"}, US)
        )
        await asyncio.sleep(0)
        sending.cancel()
        await here.graph.close()
        assert here.hook.committed[-1].pdu.content == {"body": "x"}


async def test_the_events_that_wait_for_a_room_are_bounded(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Further ones are refused at once; what waits is sent."""
    monkeypatch.setattr("federation.rooms.send.MAX_QUEUED", 100)
    async with graph_on(database, public_room("12")) as here:
        room_id = await own_room(here)
        results = await asyncio.gather(
            *(here.graph.send_event(room_id, "m.room.message", {"n": number}, US) for number in range(102)),
            return_exceptions=True,
        )
        refused = [one for one in results if isinstance(one, MatrixError)]
        assert [(one.status, one.errcode) for one in refused] == [(429, "M_LIMIT_EXCEEDED")] * 2
        assert len([one for one in results if isinstance(one, Pdu)]) == 100


async def test_an_event_that_is_sent_while_the_server_stops_is_refused(database: Database) -> None:
    """Its sender is not left waiting."""
    async with graph_on(database, public_room("12")) as here:
        room_id = await own_room(here)
        await here.graph.close()
        with pytest.raises(MatrixError, match="503 M_UNKNOWN"):
            await here.graph.send_event(room_id, "m.room.message", {}, US)


async def send_as(here: Graph, room_id: str, body: str, transaction_id: str, user: str = US) -> Pdu:
    return await here.graph.send_event(
        room_id, "m.room.message", {"body": body}, user, transaction_id=transaction_id
    )


async def test_what_is_sent_again_is_the_same_event(database: Database) -> None:
    """By sender, room and transaction id, within one commit, later, and by a process that remembers nothing.
    Others are told of it once."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        first, second = await asyncio.gather(
            send_as(here, room.room_id, "once", "1"), send_as(here, room.room_id, "twice", "1")
        )
        other = await send_as(here, room.room_id, "other", "2")
        assert first == second
        assert first.content == {"body": "once"}
        assert other != first
        assert here.counts.sent == 2
    async with graph_on(database, room) as here:
        assert await send_as(here, room.room_id, "again", "1") == first
        assert here.hook.committed == []


async def test_a_transaction_id_is_its_senders_and_its_rooms(database: Database) -> None:
    """What another one sends under it, or the same one in another room, is something else."""
    async with graph_on(database, public_room("12")) as here:
        rooms = [await own_room(here), await own_room(here)]
        await here.graph.send_event(rooms[0], "m.room.member", {"membership": "join"}, THEM, THEM)
        made = [
            await send_as(here, rooms[0], "x", "1"),
            await send_as(here, rooms[0], "x", "1", THEM),
            await send_as(here, rooms[1], "x", "1"),
        ]
        assert len({pdu.event_id for pdu in made}) == 3


async def test_what_was_sent_is_found_though_it_would_be_refused_now(database: Database) -> None:
    """Whoever has left and never got the answer is given the event that there is; others in the same commit
    are sent."""
    async with graph_on(database, public_room("12")) as here:
        room_id = await own_room(here)
        await here.graph.send_event(room_id, "m.room.member", {"membership": "join"}, THEM, THEM)
        sent = await send_as(here, room_id, "x", "1", THEM)
        await here.graph.send_event(room_id, "m.room.member", {"membership": "leave"}, THEM, THEM)
        again, refused, other = await asyncio.gather(
            send_as(here, room_id, "x", "1", THEM),
            send_as(here, room_id, "x", "2", THEM),
            send_as(here, room_id, "x", "1"),
            return_exceptions=True,
        )
        assert again == sent
        assert isinstance(refused, MatrixError)
        assert isinstance(other, Pdu)
        assert other.sender == US


async def test_what_was_refused_may_be_sent_again(database: Database) -> None:
    """A transaction id is used up by an event and by nothing else."""
    async with graph_on(database, public_room("12")) as here:
        room_id = await own_room(here)
        with pytest.raises(MatrixError, match="M_FORBIDDEN"):
            await send_as(here, room_id, "x", "1", THEM)
        await here.graph.send_event(room_id, "m.room.member", {"membership": "join"}, THEM, THEM)
        assert (await send_as(here, room_id, "x", "1", THEM)).sender == THEM


async def test_an_event_may_bear_another_time(database: Database) -> None:
    """That of what it stands for. Its place is at the head of the room all the same."""
    async with graph_on(database, public_room("12")) as here:
        room_id = await own_room(here)
        past = await here.graph.send_event(room_id, "m.room.message", {}, US, ts=5)
        now = await here.graph.send_event(room_id, "m.room.message", {}, US)
        assert past.origin_server_ts == 5
        assert now.prev_events == (past.event_id,)
        assert now.origin_server_ts > 5


async def test_two_rooms_that_are_made_alike_are_two(database: Database) -> None:
    """Also in the same millisecond, where the first event makes the id. Of an id that was chosen there is
    one."""
    async with graph_on(database, public_room("12")) as here:
        assert await own_room(here, ts=5) != await own_room(here, ts=5)
        await own_room(here, "11", room_id=f"!mine:{HERE}")
        with pytest.raises(MatrixError, match="409 M_ROOM_IN_USE"):
            await own_room(here, "11", room_id=f"!mine:{HERE}")


async def test_a_room_is_made_together_with_what_belongs_to_it(database: Database) -> None:
    """Written in the same transaction; where that fails there is no room."""
    events = [
        NewEvent("m.room.create", US, {}, ""),
        NewEvent("m.room.member", US, {"membership": "join"}, US),
    ]
    async with graph_on(database, public_room("12")) as here:
        async with here.graph.creating_room(ROOM_VERSIONS["12"], events) as made:
            assert made.connection.is_in_transaction()
        assert await here.graph.room(made.room_id) is not None
        with pytest.raises(MatrixError, match="alias"):
            async with here.graph.creating_room(ROOM_VERSIONS["12"], events) as refused:
                raise MatrixError("M_ROOM_IN_USE", "The alias is taken.")
        assert await here.graph.room(refused.room_id) is None


async def test_of_two_processes_that_make_one_room_one_does(database: Database) -> None:
    """The other one is told that there is such a room."""
    async with (
        graph_on(database, public_room("12")) as here,
        pool_on(database.address) as pool,
        graph_on(pool, public_room("12")) as there,
    ):
        results = await asyncio.gather(
            own_room(here, "11", room_id=f"!mine:{HERE}"),
            own_room(there, "11", room_id=f"!mine:{HERE}"),
            return_exceptions=True,
        )
        refused = [one for one in results if isinstance(one, MatrixError)]
        assert [one.errcode for one in refused] == ["M_ROOM_IN_USE"]
        assert f"!mine:{HERE}" in results


async def own_room(
    here: Graph,
    version: str = "12",
    ts: int | None = None,
    room_id: str | None = None,
) -> str:
    create, *_ = await here.graph.create_room(
        ROOM_VERSIONS[version],
        [
            NewEvent("m.room.create", US, {}, "", ts=ts),
            NewEvent("m.room.member", US, {"membership": "join"}, US),
            NewEvent("m.room.join_rules", US, {"join_rule": "public"}, ""),
        ],
        room_id=room_id,
    )
    return create.room_id
