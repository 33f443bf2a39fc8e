"""What the database contains after a commit."""

import random
from typing import Any

from federation.events.received import ACCEPTED
from federation.matrix.message_content import reaction, reply
from storage.database import Database
from storage.rooms.rooms import fetch_members, fetch_rooms_of_user
from tests.support.graph import HERE, US, graph_on, join, raw
from tests.support.rooms import ALICE, BOB, CAROL, public_room


async def rows(database: Database, sql: str) -> list[tuple[Any, ...]]:
    async with database.connection() as connection:
        return [tuple(row) for row in await connection.fetch(sql)]


async def test_the_table_of_the_current_state_follows_the_room(database: Database) -> None:
    """Members by room, user and server; entries that are set, replaced and removed."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        room.join(CAROL)
        room.member(ALICE, BOB, "ban")
        await here.graph.receive("a.example", raw(*list(room.events.values())[-2:]))
        async with database.connection() as connection:
            joined = await fetch_members(connection, room.room_id)
            assert [member.user_id for member in joined] == sorted([ALICE, CAROL, US])
            banned = await fetch_members(connection, room.room_id, ["ban"])
            assert [member.user_id for member in banned] == [BOB]
            assert await fetch_rooms_of_user(connection, US) == [room.room_id]
        table = await rows(database, "SELECT type, state_key, event_id FROM current_state")
        state = await here.graph.current_state(room.room_id)
        assert {(type_, key): event_id for type_, key, event_id in table} == state


async def test_every_change_raises_the_generation(database: Database) -> None:
    """By one; a transaction without changes does not."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        message = room.say(BOB)
        generations = []
        for _ in range(2):
            await here.graph.receive("b.example", raw(message))
            view = await here.graph.room(room.room_id)
            assert view is not None
            generations.append(view.generation)
        assert generations == [2, 2]


async def test_an_event_is_stored_with_its_verdict_and_its_bytes(database: Database) -> None:
    """And the rule that rejected it."""
    room = public_room("12", BOB)
    async with graph_on(database, room) as here:
        await join(here, room)
        good, bad = room.say(BOB), room.propose("m.room.topic", CAROL, {}, "")
        await here.graph.receive("b.example", raw(good, bad))
        kept = await rows(
            database,
            "SELECT event_id, verdict, refusal, canonical, state_before IS NULL FROM events"
            " WHERE depth >= (SELECT max(depth) FROM events WHERE verdict = 'accepted')",
        )
        by_id = {event_id: rest for event_id, *rest in kept}
        assert by_id[good.event_id] == ["accepted", None, good.canonical, False]
        verdict, refusal, canonical, outlier = by_id[bad.event_id]
        assert (verdict, canonical, outlier) == ("rejected", bad.canonical, False)
        assert ": " in refusal


async def test_only_members_have_a_membership(database: Database) -> None:
    """Whatever the content of other events is."""
    room = public_room("12", BOB)
    odd = room.send("org.example.odd", ALICE, {"membership": "join"}, ALICE)
    async with graph_on(database, room) as here:
        await join(here, room)
        sql = "SELECT event_id FROM current_state WHERE membership IS NOT NULL"
        members = {event_id for (event_id,) in await rows(database, sql)}
        assert odd.event_id not in members
        assert len(members) == 3
        assert await here.graph.servers_in_room(room.room_id) == {"a.example", "b.example", HERE}


async def test_a_redaction_of_an_invalid_event_id_is_only_an_event(database: Database) -> None:
    """Postgres accepts no text with NUL and no index entry longer than three kilobytes, and no event has such
    an id."""
    room = public_room("12", BOB)
    noise = random.Random(1).randbytes(5_000).hex()
    async with graph_on(database, room) as here:
        await join(here, room)
        for redacts in ("$\0", f"${noise}"):
            odd = room.send("m.room.redaction", BOB, {"redacts": redacts})
            assert await here.graph.receive("b.example", raw(odd)) == {odd.event_id: ACCEPTED}
        assert await rows(database, "SELECT target FROM redactions") == []


async def test_relations_and_redactions_are_stored(database: Database) -> None:
    """Of all accepted events, including fetched history."""
    room = public_room("12", BOB)
    message = room.say(ALICE, "hello")
    old = room.send("m.reaction", BOB, reaction(message.event_id, "x"))
    gone = room.say(BOB, "oops")
    redaction = room.send("m.room.redaction", BOB, {"redacts": gone.event_id}, redacts=gone.event_id)
    async with graph_on(database, room) as here:
        await join(here, room)
        new = room.send("m.room.message", BOB, reply(message.event_id, {"body": "good day"}))
        refused = room.propose("m.reaction", CAROL, reaction(message.event_id, "x"))
        await here.graph.receive("b.example", raw(new, refused))
        assert await rows(database, "SELECT * FROM relations") == [(message.event_id, "m.in_reply_to", new.event_id)]
        await here.graph.fetch_history("a.example", room.room_id)
        assert set(await rows(database, "SELECT * FROM relations")) == {
            (message.event_id, "m.in_reply_to", new.event_id),
            (message.event_id, "m.annotation", old.event_id),
        }
        assert await rows(database, "SELECT * FROM redactions") == [(gone.event_id, redaction.event_id)]
        (shown,) = await here.graph.apply_redactions([gone])
        assert shown.content == {}
