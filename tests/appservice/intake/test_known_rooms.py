"""The stored state of rooms with ghosts."""

import asyncio
import random
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from appservice.intake import known_rooms as module
from appservice.intake.known_rooms import KnownRooms
from federation.events.room_event import Invite, Member
from federation.matrix.errors import MatrixError
from storage.connect import ConnectionLost
from tests.appservice.events import ALICE, GHOST, ROOM, redaction
from tests.appservice.intake.pushed_events import NODE_USER, OTHER, PushingHomeserver, with_ghost
from tests.appservice.intakes import IntakeHarness

TOPIC = "m.room.topic"


@pytest.fixture
def telling(harness: IntakeHarness) -> PushingHomeserver:
    return with_ghost(harness)


@pytest.fixture
async def known(telling: PushingHomeserver) -> AsyncIterator[KnownRooms]:
    known = telling.known_rooms()
    yield known
    await known.close()


async def topic(known: KnownRooms) -> str:
    event = await known.state_event(ROOM, TOPIC)
    assert event is not None
    return str(event.content["topic"])


async def ids(known: KnownRooms, room_id: str = ROOM) -> dict[tuple[str, str], str]:
    return {(event.type, event.state_key or ""): event.event_id for event in await known.state(room_id)}


async def test_state_is_fetched_once_and_updated(telling: PushingHomeserver, known: KnownRooms) -> None:
    """As a ghost in the room; afterwards no request is made."""
    telling.happens("m.room.name", {"name": "never told"}, told=False)
    await telling.tell()
    assert await ids(known) == telling.ids()
    assert telling.asked == [(ROOM, GHOST)]
    telling.topic("second")
    telling.moves(ALICE, "leave", sender=ALICE)
    telling.happens("io.palaver.thing", {"a": 1}, "key")
    await telling.tell()
    assert await ids(known) == telling.ids()
    assert await topic(known) == "second"
    assert [event.content for event in await known.state(ROOM, "io.palaver.thing")] == [{"a": 1}]
    assert await known.state_event(ROOM, "io.palaver.thing") is None
    assert telling.asked == [(ROOM, GHOST)]


async def test_concurrent_reads_share_one_fetch(telling: PushingHomeserver, known: KnownRooms) -> None:
    """Also if one of them is cancelled."""
    await telling.tell()
    asked = [asyncio.create_task(topic(known)) for _ in range(5)]
    await asyncio.sleep(0)
    asked[0].cancel()
    assert await asyncio.gather(*asked[1:]) == ["first"] * 4
    assert len(telling.asked) == 1


async def test_room_without_ghosts(telling: PushingHomeserver, known: KnownRooms) -> None:
    """Reading the state raises 404, reading one entry returns None."""
    for room_id in ("!unknown:their.server", "!a\0b:their.server"):
        with pytest.raises(MatrixError) as refused:
            await known.state(room_id)
        assert (refused.value.errcode, refused.value.status) == ("M_NOT_FOUND", 404)
        with pytest.raises(MatrixError):
            await known.members(room_id)
        assert await known.state_event(room_id, TOPIC) is None
        assert await known.membership(room_id, GHOST) is None
    assert telling.asked == []


async def test_members_by_membership(telling: PushingHomeserver, known: KnownRooms) -> None:
    """Invalid values count as leave."""
    telling.happens(
        "m.room.member", {"membership": "join", "displayname": "Bob", "avatar_url": 7}, "@bob:b", sender="@bob:b"
    )
    telling.happens("m.room.member", {"membership": ["join"]}, "@odd:b", sender="@odd:b")
    telling.happens("m.room.member", {"membership": "a\0b"}, "@nul:b", sender="@odd:b")
    await telling.tell()
    assert Member("@bob:b", "join", "Bob", None) in await known.members(ROOM)
    assert {one.user_id for one in await known.members(ROOM)} == {ALICE, GHOST, "@bob:b"}
    assert {one.user_id for one in await known.members(ROOM, ("leave", "ban"))} == {"@odd:b", "@nul:b"}
    assert await known.membership(ROOM, "@bob:b") == "join"
    assert await known.membership(ROOM, "@odd:b") == "leave"
    assert await known.membership(ROOM, "@nobody:b") is None


async def test_state_keys_that_postgres_rejects(telling: PushingHomeserver, known: KnownRooms) -> None:
    """Types and keys may hold any JSON string."""
    telling.happens("a\0b", {"\0": "\0"}, "c\0d")
    telling.happens("m.room.member", {"membership": "join"}, "@a\0b:c")
    noise = random.Random(1).randbytes
    telling.happens("m.room.member", {"membership": noise(30_000).hex()}, OTHER)
    telling.happens(noise(127).hex(), {"x": noise(30_000).hex()}, noise(127).hex())
    await telling.tell()
    assert await ids(known) == telling.ids()
    found = await known.state_event(ROOM, "a\0b", "c\0d")
    assert found is not None
    assert found.content == {"\0": "\0"}
    assert await known.state_event(ROOM, "\ud800", "\udfff") is None


async def test_events_during_a_fetch_win(telling: PushingHomeserver, known: KnownRooms) -> None:
    """The response may be older or newer than the pushed events."""
    await telling.tell()

    async def later() -> None:
        telling.topic("second")
        telling.happens("m.room.name", {"name": "Kitchen"})
        await telling.tell()

    telling.during = later
    assert await ids(known) == telling.ids()
    assert len(telling.asked) == 1


async def test_late_events_do_not_replace_fetched_state(telling: PushingHomeserver, known: KnownRooms) -> None:
    """A fetched entry may be newer than an event that is pushed afterwards."""
    await telling.tell()
    telling.topic("second")
    telling.topic("third")
    assert await topic(known) == "third"
    await telling.tell(1)
    assert await topic(known) == "third"
    assert len(telling.asked) == 2
    await telling.tell()
    assert await ids(known) == telling.ids()


async def test_state_expires_after_a_day(
    telling: PushingHomeserver, known: KnownRooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of state resolution is not pushed. While the homeserver is unavailable, the stored state is
    used."""
    await telling.tell()
    assert await topic(known) == "first"
    telling.topic("resolved", told=False)
    monkeypatch.setattr(module, "MAX_STATE_AGE", timedelta(seconds=-1))
    telling.away = True
    assert await topic(known) == "first"
    telling.away = False
    assert await topic(known) == "resolved"
    assert await ids(known) == telling.ids()


async def test_removed_state_disappears(telling: PushingHomeserver, known: KnownRooms) -> None:
    """After an invalidation the fetched state replaces everything."""
    telling.happens("io.palaver.thing", {"a": 1}, "key")
    await telling.tell()
    assert await ids(known) == telling.ids()
    del telling.rooms[ROOM]["io.palaver.thing", "key"]
    await known.invalidate(ROOM)
    assert await ids(known) == telling.ids()


async def test_incomplete_state_needs_the_homeserver(telling: PushingHomeserver, known: KnownRooms) -> None:
    """It is not guessed."""
    await telling.tell()
    telling.away = True
    with pytest.raises(ConnectionLost):
        await known.state(ROOM)
    with pytest.raises(ConnectionLost):
        await known.membership(ROOM, ALICE)
    assert await known.joined_rooms(GHOST) == [ROOM]


async def test_local_changes_are_visible_immediately(telling: PushingHomeserver, known: KnownRooms) -> None:
    """Events that are pushed before the change do not replace it."""
    await telling.tell()
    assert await topic(known) == "first"
    telling.topic("Alice's")
    own = telling.topic("ours", sender=GHOST)
    await known.record_change(ROOM, TOPIC, "", GHOST, own["content"], own["event_id"], own["origin_server_ts"])
    assert await topic(known) == "ours"
    await telling.tell(1)
    assert await topic(known) == "ours"
    await telling.tell()
    assert await topic(known) == "ours"
    telling.topic("later")
    await telling.tell()
    assert await topic(known) == "later"
    assert len(telling.asked) == 1


async def test_local_change_that_was_already_pushed(telling: PushingHomeserver, known: KnownRooms) -> None:
    """It may be superseded by now."""
    await telling.tell()
    own = telling.topic("ours", sender=GHOST)
    telling.topic("Alice's")
    await telling.tell()
    await known.record_change(ROOM, TOPIC, "", GHOST, own["content"], own["event_id"], own["origin_server_ts"])
    assert await topic(known) == "Alice's"


async def test_local_change_that_is_never_pushed_expires(
    telling: PushingHomeserver, known: KnownRooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example because the event was invalid."""
    await telling.tell()
    assert await topic(known) == "first"
    monkeypatch.setattr(module, "LOCAL_CHANGE_TTL", timedelta(seconds=-1))
    await known.record_change(ROOM, TOPIC, "", GHOST, {"topic": "ours"}, "$never", 1)
    assert await topic(known) == "first"
    assert len(telling.asked) == 2


async def test_redacted_state_is_fetched_again(telling: PushingHomeserver, known: KnownRooms) -> None:
    """The room version decides what remains. In either order, and only for state events of the same room."""
    first = telling.rooms[ROOM][TOPIC, ""]
    await telling.tell()
    assert await topic(known) == "first"
    for number, (target, more) in enumerate(
        [("$message", {}), (first["event_id"], {"room_id": "!other:their.server"})]
    ):
        await telling.harness.receive(f"r{number}", redaction(f"$r{number}", target, **more))
        assert await topic(known) == "first"
    assert len(telling.asked) == 1
    telling.rooms[ROOM][TOPIC, ""] = {**first, "content": {}, "unsigned": {"redacted_because": {}}}
    await telling.harness.receive("r", redaction("$r", first["event_id"]))
    event = await known.state_event(ROOM, TOPIC)
    assert event is not None
    assert (event.content, event.is_redacted) == ({}, True)
    assert len(telling.asked) == 2

    await telling.harness.receive("early", redaction("$early", f"${telling.count + 1}"))
    second = telling.topic("second")
    telling.rooms[ROOM][TOPIC, ""] = {**second, "content": {}, "unsigned": {"redacted_because": {}}}
    await telling.tell()
    event = await known.state_event(ROOM, TOPIC)
    assert event is not None
    assert (event.event_id, event.content) == (second["event_id"], {})


async def test_join_and_leave(telling: PushingHomeserver, known: KnownRooms) -> None:
    """The ghost's rooms are known immediately; state from times without ghosts is fetched."""
    await telling.tell(4)
    assert await known.membership(ROOM, GHOST) == "invite"
    assert await known.resident(ROOM) is None
    await telling.tell()
    assert await known.joined_rooms(GHOST) == [ROOM]
    assert await known.resident(ROOM) == GHOST
    assert await topic(known) == "first"
    telling.moves(GHOST, "ban")
    await telling.tell()
    assert await known.joined_rooms(GHOST) == []
    assert await known.membership(ROOM, GHOST) == "ban"
    with pytest.raises(MatrixError):
        await known.state(ROOM)
    telling.topic("missed", told=False)
    telling.moves(GHOST, "join")
    await telling.tell()
    assert await ids(known) == telling.ids()


async def test_rejoin_fetches_the_state(telling: PushingHomeserver, known: KnownRooms) -> None:
    """Also if leave and join are pushed together, or known before they are pushed."""
    await telling.tell()
    assert await topic(known) == "first"
    telling.moves(GHOST, "leave")
    telling.topic("missed", told=False)
    telling.moves(GHOST, "join")
    await telling.tell()
    assert await ids(known) == telling.ids()

    for event in (telling.moves(GHOST, "leave", sender=GHOST), telling.moves(GHOST, "join")):
        await known.record_change(
            ROOM, "m.room.member", GHOST, GHOST, event["content"], event["event_id"], event["origin_server_ts"]
        )
    telling.topic("missed too", told=False)
    assert await ids(known) == telling.ids()
    await telling.tell()
    assert await ids(known) == telling.ids()


async def test_another_ghost_keeps_the_state_complete(telling: PushingHomeserver, known: KnownRooms) -> None:
    """A leave of one of several ghosts causes no fetch."""
    telling.moves(OTHER, "join")
    await telling.tell()
    assert await topic(known) == "first"
    telling.moves(GHOST, "leave", sender=GHOST)
    await telling.tell()
    assert await topic(known) == "first"
    assert len(telling.asked) == 1
    assert await known.resident(ROOM) == OTHER


async def test_resident_that_has_left(telling: PushingHomeserver, known: KnownRooms) -> None:
    """Another ghost is used; without one the room becomes unknown."""
    telling.moves(OTHER, "join")
    await telling.tell()
    telling.moves(GHOST, "leave", told=False)
    assert await topic(known) == "first"
    assert telling.asked == [(ROOM, GHOST), (ROOM, OTHER)]
    assert await known.membership(ROOM, GHOST) == "leave"
    telling.moves(OTHER, "leave", told=False)
    await known.invalidate(ROOM)
    with pytest.raises(MatrixError):
        await known.state(ROOM)
    assert await known.joined_rooms(OTHER) == []


async def test_other_refusals_are_raised(telling: PushingHomeserver, known: KnownRooms) -> None:
    """They change nothing."""
    await telling.tell()

    async def refuse() -> None:
        raise MatrixError("M_LIMIT_EXCEEDED", "Too many.", 429)

    telling.during = refuse
    with pytest.raises(MatrixError, match="Too many"):
        await known.state(ROOM)
    assert await topic(known) == "first"


async def test_invalidation_during_a_fetch_repeats_it(telling: PushingHomeserver, known: KnownRooms) -> None:
    """A limited number of times."""
    await telling.tell()

    async def doubt() -> None:
        telling.topic("second", told=False)
        await known.invalidate(ROOM)

    telling.during = doubt
    assert await topic(known) == "second"
    assert len(telling.asked) == 2

    async def again() -> None:
        await known.invalidate(ROOM)
        telling.during = again

    telling.during = again
    await known.invalidate(ROOM)
    assert await topic(known) == "second"
    assert len(telling.asked) == 5


async def test_upgraded_room(telling: PushingHomeserver, known: KnownRooms) -> None:
    """The new room is known by the ghost's join."""
    new = "!new:their.server"
    await telling.tell()
    telling.happens("m.room.tombstone", {"replacement_room": new})
    telling.happens("m.room.create", {"predecessor": {"room_id": ROOM}}, room_id=new, told=False)
    telling.moves(GHOST, "join", room_id=new)
    await telling.tell()
    tombstone = await known.state_event(ROOM, "m.room.tombstone")
    assert tombstone is not None
    assert tombstone.content == {"replacement_room": new}
    assert await ids(known, new) == telling.ids(new)
    assert await known.joined_rooms(GHOST) == sorted([ROOM, new])


async def test_invites_until_answered(telling: PushingHomeserver, known: KnownRooms) -> None:
    """With their stripped state."""
    shown = {"type": "m.room.name", "state_key": "", "sender": ALICE, "content": {"name": "Kitchen"}}
    invite = telling.rooms[ROOM]["m.room.member", GHOST]["event_id"]
    telling.untold[3]["unsigned"] = {"invite_room_state": [shown]}
    invite = telling.untold[3]["event_id"]
    await telling.tell(4)
    assert await known.invites(GHOST) == [Invite(ROOM, GHOST, ALICE, invite, (shown,))]
    assert await known.invites(OTHER) == []
    await telling.tell()
    assert await known.invites(GHOST) == []


async def test_new_database_loads_joined_rooms(telling: PushingHomeserver, known: KnownRooms) -> None:
    """Once per ghost; an unknown room is searched among the node user's rooms."""
    telling.moves(NODE_USER, "join")
    telling.untold.clear()
    assert await known.joined_rooms(GHOST) == [ROOM]
    assert await known.joined_rooms(GHOST) == [ROOM]
    assert telling.asked_joined == [GHOST]
    assert await known.resident(ROOM) == GHOST
    assert await ids(known) == telling.ids()

    second = telling.known_rooms()
    await known.delete_room(ROOM)
    assert await ids(second) == telling.ids()
    assert telling.asked_joined == [GHOST, NODE_USER]
    assert await second.resident("!unknown:their.server") is None
    assert telling.asked_joined == [GHOST, NODE_USER]
    await second.close()


async def test_new_ghost_needs_no_request(telling: PushingHomeserver, known: KnownRooms) -> None:
    """It is in no room. Events pushed while its rooms are loaded take precedence."""
    await known.set_joined_rooms(OTHER, ["no room", "!a\0b:c"])
    assert await known.joined_rooms(OTHER) == []
    assert telling.asked_joined == []
    telling.untold.clear()
    telling.moves(GHOST, "leave")
    await telling.tell()
    await known.set_joined_rooms(GHOST, [ROOM])
    assert await known.joined_rooms(GHOST) == []


async def test_restored_database_detects_gaps(telling: PushingHomeserver, known: KnownRooms) -> None:
    """Transactions are numbered; after a gap the state is fetched again."""
    telling.moves(OTHER, "join")
    await telling.tell(1)
    await telling.tell()
    assert await ids(known) == telling.ids()
    assert await known.joined_rooms(GHOST) == await known.joined_rooms(OTHER) == [ROOM]
    telling.topic("missed", told=False)
    telling.moves(OTHER, "leave", told=False)
    telling.moves(OTHER, "join", told=False, room_id="!other:their.server")
    telling.transactions += 3
    telling.happens("m.room.message", {"body": "a"}, None)
    await telling.tell()
    assert await ids(known) == telling.ids()
    assert await known.joined_rooms(GHOST) == [ROOM]
    assert await known.joined_rooms(OTHER) == ["!other:their.server"]


async def test_events_have_redactions_applied(telling: PushingHomeserver, known: KnownRooms) -> None:
    """Pushed events can be read by id."""
    telling.happens("m.room.message", {"body": "a"}, None)
    event_id = telling.untold[-1]["event_id"]
    await telling.tell()
    event = await known.event(event_id)
    assert event is not None
    assert event.content == {"body": "a"}
    assert await known.knows_event(event_id)
    for unknown in ("$unknown", "$a\0b"):
        assert await known.event(unknown) is None
        assert not await known.knows_event(unknown)
    await telling.harness.receive("r", redaction("$r", event_id))
    event = await known.event(event_id)
    assert event is not None
    assert event.is_redacted


async def test_sent_messages_are_recognised(telling: PushingHomeserver, known: KnownRooms) -> None:
    """By key, sender and room; a copied key of another sender does not count. People have keys too."""
    key = "0123456789abcdef" * 2
    content = {"body": "a", "io.palaver.transaction": key}
    copied = telling.happens("m.room.message", content, None)
    telling.happens("m.room.message", {**content, "io.palaver.transaction": ["a"]}, None, sender=GHOST)
    own = telling.happens("m.room.message", content, None, sender=GHOST)
    telling.happens("m.room.message", content, None, sender=GHOST)
    await telling.tell()
    assert await known.sent(GHOST, ROOM, key) == own["event_id"]
    assert await known.sent(ALICE, ROOM, key) == copied["event_id"]
    assert await known.sent(OTHER, ROOM, key) is None
    assert await known.sent(GHOST, "!other:their.server", key) is None
    assert await known.sent(GHOST, ROOM, "f" * 32) is None
