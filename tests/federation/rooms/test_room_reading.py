"""Reading rooms: states, the event graph, visibility."""

from itertools import pairwise

import pytest

from federation.events import redact_pdu
from federation.state_resolution.conflicts import reachable
from storage.database import Database
from tests.support.graph import US, graph_on, join, raw
from tests.support.rooms import ALICE, BOB, CAROL, public_room

VERSIONS = pytest.mark.parametrize("version", ["10", "11", "12"])


@VERSIONS
async def test_states_before_and_after(version: str, database: Database) -> None:
    """Of every event in the graph; also with an empty cache."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        topics = [room.topic(ALICE, str(number)) for number in range(70)]
        await here.graph.receive("a.example", raw(*topics[:50]))
        await here.graph.receive("a.example", raw(*topics[50:]))
    async with graph_on(database, room) as here:
        for before, after in pairwise(topics):
            state = await here.graph.state_at(after.event_id)
            assert state is not None
            assert state["m.room.topic", ""] == before.event_id
            assert await here.graph.state_after(before.event_id) == state
        assert await here.graph.state_at("$unknown") is None
        assert await here.graph.state_at(room.create.event_id) is None  # an outlier here
        assert await here.graph.current_state("!unknown") == {}
        keys = [("m.room.topic", ""), ("m.room.member", CAROL)]
        assert await here.graph.current_events(room.room_id, keys) == {keys[0]: topics[-1]}
        assert await here.graph.current_events("!unknown", keys) == {}


@VERSIONS
async def test_auth_chains(version: str, database: Database) -> None:
    """From version 12 on with the create event, which no event names."""
    room = public_room(version, BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        message = room.say(BOB)
        await here.graph.receive("b.example", raw(message))
        expected = reachable([message.event_id], lambda one: room.events[one].auth_events) - {message.event_id}
        assert await here.graph.auth_chain([message.event_id]) == expected | {room.create.event_id}
        assert await here.graph.auth_chain([room.create.event_id]) == set()
        ids = await here.graph.state_ids(room.room_id, message.event_id)
        assert ids is not None
        state = await here.graph.state_at(message.event_id)
        assert state is not None
        assert set(ids.pdu_ids) == set(state.values())
        # From version 12 on the create event is in the auth chain of every other event of the state.
        assert room.create.event_id in ids.auth_chain_ids
        assert await here.graph.state_ids("!other", message.event_id) is None
        assert await here.graph.state_ids(room.room_id, room.create.event_id) is None


async def test_walks_through_the_graph(database: Database) -> None:
    """Beyond the ancestors of the first query."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        joined = await join(here, room)
        messages = [room.say(BOB, str(number)) for number in range(250)]
        for start in range(0, 250, 50):
            await here.graph.receive("b.example", raw(*messages[start : start + 50]))
        found = await here.graph.missing_events(
            room.room_id, earliest=[messages[5].event_id], latest=[messages[10].event_id], limit=20, min_depth=0
        )
        assert found == messages[6:10]
        found = await here.graph.missing_events(
            room.room_id, earliest=[], latest=[messages[249].event_id], limit=240, min_depth=0
        )
        assert found == messages[9:249]
        assert await here.graph.backfill(room.room_id, [messages[2].event_id], 10) == [
            messages[2], messages[1], messages[0], joined,
        ]  # fmt: skip
        assert len(await here.graph.backfill(room.room_id, [messages[-1].event_id], 230)) == 230
        assert await here.graph.backfill(room.room_id, ["$unknown", room.create.event_id], 10) == []


@pytest.mark.parametrize(
    ("visibility", "before_invite", "after_invite", "after_join"),
    [
        ("shared", True, True, True),
        ("world_readable", True, True, True),
        ("invited", False, True, True),
        ("joined", False, False, True),
    ],
)
async def test_history_is_hidden_from_servers(
    visibility: str, before_invite: bool, after_invite: bool, after_join: bool, database: Database
) -> None:
    """They get redacted events instead, by the state at the time."""
    room = public_room("12", BOB)
    room.send("m.room.history_visibility", ALICE, {"history_visibility": visibility}, "")
    async with graph_on(database, room) as here:
        await join(here, room)
        early = room.say(BOB, "early")
        invited = room.member(ALICE, CAROL, "invite")
        middle = room.say(BOB, "middle")
        joined = room.join(CAROL)
        late = room.say(BOB, "late")
        everything = [early, invited, middle, joined, late]
        await here.graph.receive("b.example", raw(*everything))
        shown = await here.graph.redact_for_server("c.example", everything)
        assert shown == everything
        seen = [pdu.event == original.event for pdu, original in zip(shown, everything, strict=True)]
        assert [seen[0], seen[2], seen[4]] == [before_invite, after_invite, after_join]
        assert seen[3]
        hidden = await here.graph.redact_for_server("d.example", [early])
        assert (hidden[0].content == {}) == (visibility in {"invited", "joined"})


@VERSIONS
async def test_a_redaction_is_applied_once_both_events_are_known(version: str, database: Database) -> None:
    """By a user with the power, or of the same server; in any order of arrival."""
    room = public_room(version, BOB, CAROL)
    async with graph_on(database, room) as here:
        await join(here, room)

        def redacting(user: str, target: str) -> dict[str, object]:
            return {"redacts": target} if room.version.redacts_in_content else {}

        start = room.head
        by_power, by_server, by_nobody = (room.say(BOB, word) for word in ("one", "two", "three"))
        late = room.say(BOB, "late", after=start)
        redactions = []
        for user, target in ((ALICE, by_power), (BOB, by_server), (CAROL, by_nobody), (ALICE, late)):
            redaction = room.propose(
                "m.room.redaction", user, redacting(user, target.event_id), after=[by_nobody], redacts=target.event_id
            )
            redactions.append(room.add(redaction))
        await here.graph.receive("b.example", raw(by_power, by_server, by_nobody, *redactions))
        targets = [by_power, by_server, by_nobody]
        shown = await here.graph.apply_redactions(targets)
        assert [pdu.event for pdu in shown] == [
            redact_pdu(by_power, room.version).event,
            redact_pdu(by_server, room.version).event,
            by_nobody.event,
        ]
        assert (await here.graph.events([late.event_id])) == {}
        await here.graph.receive("b.example", raw(late))
        (shown_late,) = await here.graph.apply_redactions([late])
        assert shown_late.event == redact_pdu(late, room.version).event
        # Other servers get the redacted event as well.
        (to_server,) = await here.graph.redact_for_server("c.example", [by_power])
        assert to_server.content == {}


async def test_a_redaction_that_names_another_room_does_nothing(database: Database) -> None:
    """It is stored, but not applied."""
    room, other = public_room("12", BOB), public_room("12", BOB, another=True)
    async with graph_on(database, room) as here:
        await join(here, room)
        await join(here, other)
        message = room.say(BOB)
        redaction = other.send("m.room.redaction", BOB, {"redacts": message.event_id})
        await here.graph.receive("b.example", raw(message, redaction))
        assert (await here.graph.apply_redactions([message]))[0].event == message.event


async def test_servers_of_unknown_rooms(database: Database) -> None:
    """There are none."""
    async with graph_on(database, public_room("12")) as here:
        assert await here.graph.servers_in_room("!unknown") == frozenset()
        assert not await here.graph.is_server_in_room("!unknown", "a.example")
        assert await here.graph.room("!unknown") is None
        assert await here.graph.room("!\0:a.example") is None
        assert await here.graph.events(["$\0"]) == {}
        assert US.endswith("here.example")
