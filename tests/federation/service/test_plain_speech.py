"""Messages of which it is known beforehand that the rules allow them."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from federation.auth_rules.auth_event_selection import POWER_LEVELS
from federation.errors import MatrixError
from federation.known_event import KnownEvent
from federation.pdu import Pdu
from federation.room_version import ROOM_VERSIONS
from federation.service.plain_speech import MOST_READY, READY_FOR_MS
from federation.service.room_commit import Plain
from federation.service.room_ports import NewEvent
from storage.database import Database
from tests.support.graph import HERE, US, Graph, graph_on, join, raw
from tests.support.postgres import pool_on
from tests.support.rooms import ALICE, BOB, public_room

THEM = f"@them:{HERE}"
TYPE = "io.cis.agent.message"


async def say(here: Graph, room_id: str, body: str = "x", type_: str = TYPE, **more: Any) -> Pdu:
    return await here.graph.send_event(room_id, type_, {"body": body}, US, **more)


def plainly(here: Graph, room_id: str, *events: NewEvent) -> Plain | None:
    """What the graph would say without asking."""
    memory = here.graph._store.remembered_room(room_id)
    assert memory is not None
    return here.graph._own_events._plain.speak(memory, events, [None] * len(events))


MESSAGE = NewEvent(TYPE, US, {"body": "y"})


@pytest.mark.parametrize("version", ["6", "10", "11", "12"])
async def test_what_was_allowed_once_is_said_as_the_first_time(database: Database, version: str) -> None:
    """Both ways leave the same in the database and with whoever must be told, but for what the second message
    says and where it stands."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        assert plainly(here, room.room_id, MESSAGE) is None
        long_way = await say(here, room.room_id, transaction_id="1")
        assert plainly(here, room.room_id, MESSAGE) is not None
        short_way = await say(here, room.room_id, "y", transaction_id="2")
        assert short_way.content == {"body": "y"}
        assert short_way.prev_events == (long_way.event_id,)
        assert (short_way.depth, short_way.auth_events) == (long_way.depth + 1, long_way.auth_events)
        first, second = here.hook.committed[-2:]
        assert (first.pdu, second.pdu) == (long_way, short_way)
        assert first.destinations == second.destinations == {"a.example", "b.example"}
        assert here.counts.sent == 2
        assert await here.graph.state_at(short_way.event_id) == await here.graph.current_state(room.room_id)
        rows = await _rows(database, long_way, short_way)
        new = {"event_id", "depth", "origin_server_ts", "prev_events", "canonical"}
        kept = [{name: row[name] for name in row if name not in new} for row in rows]
        assert kept[0] == kept[1]
        entries = await here.graph.stream.read(0, 100)
        assert [entry.pdu for entry in entries[-2:]] == [long_way, short_way]
    async with graph_on(database, room) as here:
        assert await say(here, room.room_id, "z", transaction_id="2") == short_way


async def _rows(database: Database, *pdus: Pdu) -> list[dict[str, Any]]:
    async with database.transaction() as connection:
        return [
            dict(await connection.fetchrow("SELECT * FROM events WHERE event_id = $1", pdu.event_id) or ())
            for pdu in pdus
        ]


async def own_room(here: Graph, *also: NewEvent) -> str:
    create, *_ = await here.graph.create_room(
        ROOM_VERSIONS["12"],
        [
            NewEvent("m.room.create", US, {}, ""),
            NewEvent("m.room.member", US, {"membership": "join"}, US),
            NewEvent("m.room.join_rules", US, {"join_rule": "public"}, ""),
            NewEvent("m.room.member", THEM, {"membership": "join"}, THEM),
            *also,
        ],
    )
    return create.room_id


async def test_another_state_is_asked_anew(database: Database) -> None:
    """Whoever may not say it any more is refused. Another sender and another type are judged for
    themselves."""
    async with graph_on(database, public_room("12")) as here:
        room_id = await own_room(here)
        theirs = NewEvent(TYPE, THEM, {"body": "y"})
        await here.graph.send_event(room_id, TYPE, {}, THEM)
        assert plainly(here, room_id, theirs) is not None
        assert plainly(here, room_id, MESSAGE) is None
        assert plainly(here, room_id, NewEvent("m.room.message", THEM, {})) is None
        await here.graph.send_event(room_id, "m.room.power_levels", {"events": {TYPE: 1}}, US, "")
        assert plainly(here, room_id, theirs) is None
        with pytest.raises(MatrixError, match="M_FORBIDDEN"):
            await here.graph.send_event(room_id, TYPE, {}, THEM)
        await here.graph.send_event(room_id, "m.room.power_levels", {}, US, "")
        said = await here.graph.send_event(room_id, TYPE, {}, THEM)
        levels = await here.graph.current_events(room_id, [POWER_LEVELS])
        assert levels[POWER_LEVELS].event_id in said.auth_events


async def test_what_it_rests_on_may_be_rejected_later(database: Database) -> None:
    """When an event has been rejected everything is asked anew."""
    async with graph_on(database, public_room("12")) as here:
        room_id = await own_room(here)
        await say(here, room_id)
        member = (await here.graph.current_events(room_id, [("m.room.member", US)]))["m.room.member", US]
        here.graph._store.remember_event(KnownEvent(member, "rejected", "rule: text", 1, 1))
        assert plainly(here, room_id, MESSAGE) is None
        with pytest.raises(MatrixError, match="M_FORBIDDEN"):
            await say(here, room_id)


async def test_what_somebody_has_written_meanwhile_is_followed(database: Database) -> None:
    """Another process has changed the state: what was made for the old one is not written."""
    async with (
        graph_on(database, public_room("12")) as here,
        pool_on(database.address) as pool,
        graph_on(pool, public_room("12")) as there,
    ):
        room_id = await own_room(here)
        await here.graph.send_event(room_id, TYPE, {}, THEM)
        left = await there.graph.send_event(room_id, "m.room.member", {"membership": "leave"}, THEM, THEM)
        assert plainly(here, room_id, NewEvent(TYPE, THEM, {})) is not None
        with pytest.raises(MatrixError, match="M_FORBIDDEN"):
            await here.graph.send_event(room_id, TYPE, {}, THEM)
        view = await here.graph.room(room_id)
        assert view is not None
        assert view.forward_extremities == (left.event_id,)


@pytest.mark.parametrize(
    ("type_", "also"),
    [
        ("m.room.third_party_invite", []),
        ("m.room.redaction", []),
        (TYPE, [NewEvent("m.room.policy", US, {"via": "nowhere.example"}, "")]),
    ],
    ids=["it has a rule of its own", "it is redacted in another way", "a policy server may be asked"],
)
async def test_some_messages_are_judged_each_time(
    database: Database, type_: str, also: list[NewEvent]
) -> None:
    """Those of which the rules ask more than who sends them."""
    async with graph_on(database, public_room("12")) as here:
        room_id = await own_room(here, *also)
        await here.graph.send_event(room_id, type_, {}, US)
        assert plainly(here, room_id, NewEvent(type_, US, {})) is None
        assert isinstance(await here.graph.send_event(room_id, type_, {}, US), Pdu)


async def test_what_is_not_plain_goes_the_long_way(database: Database) -> None:
    """What cannot be written, what changes the state, what is sent twice at once; and whoever says it hears
    why it is not."""
    async with graph_on(database, public_room("12")) as here:
        room_id = await own_room(here)
        await say(here, room_id)
        assert plainly(here, room_id, MESSAGE, MESSAGE) is not None
        for other in (
            NewEvent(TYPE, US, {"n": 1.5}),
            NewEvent(TYPE, US, {}, ""),
            NewEvent(TYPE, US, {}, redacts="$x"),
            NewEvent(TYPE, US, {}, ts=-1),
        ):
            assert plainly(here, room_id, MESSAGE, other) is None
        good, bad, again = await asyncio.gather(
            say(here, room_id, transaction_id="1"),
            here.graph.send_event(room_id, TYPE, {"n": 1.5}, US),
            say(here, room_id, transaction_id="1"),
            return_exceptions=True,
        )
        assert isinstance(bad, MatrixError)
        assert isinstance(good, Pdu)
        assert again == good


async def test_two_ends_are_made_one_the_long_way(database: Database) -> None:
    """The state after a fork is resolved; the next message is plain again."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        room.add(await say(here, room.room_id))
        start = room.head
        ends = [room.say(ALICE, str(number), after=start) for number in range(2)]
        await here.graph.receive("a.example", raw(*ends))
        assert plainly(here, room.room_id, MESSAGE) is None
        assert len((await say(here, room.room_id)).prev_events) == 2
        assert plainly(here, room.room_id, MESSAGE) is not None


CONTENT: dict[str, Any] = {"body": "y", "nested": {"z": [1, None, "ü"], "a": 2**40}}


def ready_in(here: Graph, room_id: str, content: dict[str, Any] = CONTENT, sender: str = US) -> Pdu | None:
    """What was made for the room, and is not said yet."""
    here.graph._own_events.make_ready(room_id, NewEvent(TYPE, sender, content))
    ready = here.graph._own_events._plain._ready.get(room_id)
    return None if ready is None else ready.event.pdu


async def test_what_was_made_ready_is_said_to_the_byte_as_it_is_without(database: Database) -> None:
    """At the same place and time; and it is found again under its name like any other."""
    async with graph_on(database, public_room("12")) as here:
        room_id = await own_room(here)
        await say(here, room_id)
        memory = here.graph._store.remembered_room(room_id)
        ready = ready_in(here, room_id)
        assert memory is not None
        assert ready is not None
        said = await here.graph.send_event(room_id, TYPE, CONTENT, US, transaction_id="1")
        assert said is ready
        anew = NewEvent(TYPE, US, dict(CONTENT), ts=said.origin_server_ts)
        plain = here.graph._own_events._plain.speak(memory, [anew], [None])
        assert plain is not None
        assert plain.events[0].pdu == said
        assert plain.events[0].pdu.canonical == said.canonical
        assert await here.graph.send_event(room_id, TYPE, CONTENT, US, transaction_id="1") == said
        assert (await here.graph.send_event(room_id, TYPE, CONTENT, US)).prev_events == (said.event_id,)


async def test_what_was_made_ready_and_is_not_said_leaves_nothing(database: Database) -> None:
    """Neither in the database, nor in the stream, nor in what is said next; of a few rooms it is kept."""
    async with graph_on(database, public_room("12")) as here:
        rooms = [await own_room(here) for _ in range(MOST_READY + 1)]
        for room_id in rooms:
            await say(here, room_id)
        before = await here.graph.stream.read(0, 1000)
        made = [ready_in(here, room_id) for room_id in rooms]
        assert None not in made
        assert len(here.graph._own_events._plain._ready) == MOST_READY
        assert await here.graph.stream.read(0, 1000) == before
        assert await _rows(database, *[pdu for pdu in made if pdu is not None]) == [{}] * len(made)
        other = await say(here, rooms[-1], "something else")
        assert other.content == {"body": "something else"}
        last = made[-1]
        assert last is not None
        assert other.prev_events == last.prev_events


async def test_what_was_made_ready_is_made_anew_where_anything_is_another(database: Database) -> None:
    """The end of the room, its state, who says it and when, with which key it is signed, when it was made."""
    async with graph_on(database, public_room("12")) as here:
        room_id = await own_room(here)
        await say(here, room_id)
        await here.graph.send_event(room_id, TYPE, {}, THEM)

        ready = ready_in(here, room_id)
        between = await say(here, room_id, "in between")
        said = await here.graph.send_event(room_id, TYPE, CONTENT, US)
        assert said.prev_events == (between.event_id,)
        assert ready is not None
        assert said.event_id != ready.event_id

        ready = ready_in(here, room_id)
        said = await here.graph.send_event(room_id, TYPE, CONTENT, THEM)
        assert (said.sender, said.content) == (THEM, CONTENT)

        ready = ready_in(here, room_id)
        said = await here.graph.send_event(room_id, TYPE, CONTENT, US, ts=5)
        assert said.origin_server_ts == 5

        ready = ready_in(here, room_id)
        levels = await here.graph.send_event(room_id, "m.room.power_levels", {"events": {TYPE: 0}}, US, "")
        said = await here.graph.send_event(room_id, TYPE, CONTENT, US)
        assert said.prev_events == (levels.event_id,)
        assert levels.event_id in said.auth_events

        ready = ready_in(here, room_id)
        plain = here.graph._own_events._plain
        ours = plain._signer()
        plain._signer = lambda: replace(ours, key_id="ed25519:newer")
        said = await here.graph.send_event(room_id, TYPE, CONTENT, US)
        assert list(said.event["signatures"][HERE]) == ["ed25519:newer"]

        ready = ready_in(here, room_id)
        assert ready is not None
        while here.graph._own_events._now_ms() - ready.origin_server_ts <= READY_FOR_MS:
            pass  # this clock goes on whenever it is looked at
        said = await here.graph.send_event(room_id, TYPE, CONTENT, US)
        assert said.prev_events == ready.prev_events
        assert said.origin_server_ts > ready.origin_server_ts + READY_FOR_MS


async def test_the_first_of_several_that_wait_keeps_what_was_made_for_it(database: Database) -> None:
    """Two cannot follow the same event as they are; said together, each says what it has to."""
    async with graph_on(database, public_room("12")) as here:
        room_id = await own_room(here)
        await say(here, room_id)
        first, second = {"body": "1"}, {"body": "2"}
        ready = ready_in(here, room_id, first)
        assert ready_in(here, room_id, second) is ready
        one, two = await asyncio.gather(
            here.graph.send_event(room_id, TYPE, first, US), here.graph.send_event(room_id, TYPE, second, US)
        )
        assert one is ready
        assert (two.content, two.prev_events) == (second, (one.event_id,))


async def test_what_cannot_be_said_plainly_is_not_made_ready(database: Database) -> None:
    """In a room that nobody knows, of a kind that was not said yet, or that has no canonical form."""
    async with graph_on(database, public_room("12")) as here:
        room_id = await own_room(here)
        assert ready_in(here, room_id) is None
        await say(here, room_id)
        assert ready_in(here, room_id, {"n": 1.5}) is None
        assert ready_in(here, "!nowhere:here.example") is None
        assert ready_in(here, "\0") is None
        assert ready_in(here, room_id) is not None
