"""Messages of which it is known beforehand that the rules allow them."""

import asyncio
from typing import Any

import pytest

from federation.auth_rules.auth_event_selection import POWER_LEVELS
from federation.errors import MatrixError
from federation.known_event import KnownEvent
from federation.pdu import Pdu
from federation.room_version import ROOM_VERSIONS
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
