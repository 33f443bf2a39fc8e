"""Local events: they form a chain, are allowed by the auth rules, and are sent to the servers of the room."""

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


async def test_concurrent_events_form_a_chain(database: Database) -> None:
    """One prev_event each, so that peers need no state resolution; many share a commit."""
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
        assert {one.destinations for one in here.hook.committed[1:]} == {frozenset({"a.example", "b.example"})}
        for pdu in made[::40]:
            assert await here.graph.state_at(pdu.event_id) == await here.graph.current_state(room.room_id)


async def test_a_refused_event_does_not_affect_others(database: Database) -> None:
    """Its sender gets the rule."""
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


async def test_state_of_another_process_is_respected(database: Database) -> None:
    """An event that was made for an outdated state is not written."""
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


async def test_only_the_invalid_event_of_a_batch_is_refused(database: Database) -> None:
    """One without canonical JSON, and one that is sent twice."""
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


async def test_the_server_of_a_banned_user_receives_the_ban(database: Database) -> None:
    """Destinations are the servers in the state before the event."""
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


async def test_a_template_is_checked_and_not_sent(database: Database) -> None:
    """The auth rules are checked, so that no template is useless."""
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


async def test_a_wide_fork_is_merged_ten_extremities_at_a_time(database: Database) -> None:
    """More would make state resolution expensive for all servers."""
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


async def test_a_room_that_cannot_be_created_is_rolled_back(database: Database) -> None:
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


async def test_cancelling_the_call_does_not_cancel_the_event(database: Database) -> None:
    """It may be committed already; `close` waits for it."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        sending = asyncio.create_task(here.graph.send_event(room.room_id, "m.room.message", {"body": "x"}, US))
        await asyncio.sleep(0)
        sending.cancel()
        await here.graph.close()
        assert here.hook.committed[-1].pdu.content == {"body": "x"}


async def test_the_queue_of_a_room_is_bounded(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Further events are refused at once; queued ones are sent."""
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


async def test_events_are_refused_during_shutdown(database: Database) -> None:
    """The caller does not wait."""
    async with graph_on(database, public_room("12")) as here:
        room_id = await own_room(here)
        await here.graph.close()
        with pytest.raises(MatrixError, match="503 M_UNKNOWN"):
            await here.graph.send_event(room_id, "m.room.message", {}, US)


async def send_as(here: Graph, room_id: str, body: str, transaction_id: str, user: str = US) -> Pdu:
    return await here.graph.send_event(room_id, "m.room.message", {"body": body}, user, transaction_id=transaction_id)


async def test_an_event_sent_again_is_the_same_event(database: Database) -> None:
    """By sender, room and transaction id, within one commit, later, and by a process with empty caches. It is
    published once."""
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


async def test_a_transaction_id_belongs_to_a_sender_and_a_room(database: Database) -> None:
    """Another sender's, or in another room, it stands for another event."""
    async with graph_on(database, public_room("12")) as here:
        rooms = [await own_room(here), await own_room(here)]
        await here.graph.send_event(rooms[0], "m.room.member", {"membership": "join"}, THEM, THEM)
        made = [
            await send_as(here, rooms[0], "x", "1"),
            await send_as(here, rooms[0], "x", "1", THEM),
            await send_as(here, rooms[1], "x", "1"),
        ]
        assert len({pdu.event_id for pdu in made}) == 3


async def test_an_event_sent_before_is_found_even_if_it_would_be_refused_now(database: Database) -> None:
    """A user who has left gets the event that was sent; others in the same commit are sent."""
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


async def test_a_refused_event_does_not_use_its_transaction_id(database: Database) -> None:
    """Only a committed event does."""
    async with graph_on(database, public_room("12")) as here:
        room_id = await own_room(here)
        with pytest.raises(MatrixError, match="M_FORBIDDEN"):
            await send_as(here, room_id, "x", "1", THEM)
        await here.graph.send_event(room_id, "m.room.member", {"membership": "join"}, THEM, THEM)
        assert (await send_as(here, room_id, "x", "1", THEM)).sender == THEM


async def test_an_event_may_have_another_timestamp(database: Database) -> None:
    """Its position is the head of the room nevertheless."""
    async with graph_on(database, public_room("12")) as here:
        room_id = await own_room(here)
        past = await here.graph.send_event(room_id, "m.room.message", {}, US, ts=5)
        now = await here.graph.send_event(room_id, "m.room.message", {}, US)
        assert past.origin_server_ts == 5
        assert now.prev_events == (past.event_id,)
        assert now.origin_server_ts > 5


async def test_two_identical_requests_create_two_rooms(database: Database) -> None:
    """Also in the same millisecond, if the create event makes the id. A chosen id can be used once."""
    async with graph_on(database, public_room("12")) as here:
        assert await own_room(here, ts=5) != await own_room(here, ts=5)
        await own_room(here, "11", room_id=f"!mine:{HERE}")
        with pytest.raises(MatrixError, match="409 M_ROOM_IN_USE"):
            await own_room(here, "11", room_id=f"!mine:{HERE}")


async def test_a_room_is_committed_with_other_rows(database: Database) -> None:
    """If writing those fails, there is no room."""
    events = [NewEvent("m.room.create", US, {}, ""), NewEvent("m.room.member", US, {"membership": "join"}, US)]
    async with graph_on(database, public_room("12")) as here:
        async with here.graph.creating_room(ROOM_VERSIONS["12"], events) as made:
            assert made.connection.is_in_transaction()
        assert await here.graph.room(made.room_id) is not None
        with pytest.raises(MatrixError, match="alias"):
            async with here.graph.creating_room(ROOM_VERSIONS["12"], events) as refused:
                raise MatrixError("M_ROOM_IN_USE", "The alias is taken.")
        assert await here.graph.room(refused.room_id) is None


async def test_one_of_two_processes_creates_a_room(database: Database) -> None:
    """The other gets the error that it exists."""
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


async def own_room(here: Graph, version: str = "12", ts: int | None = None, room_id: str | None = None) -> str:
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
