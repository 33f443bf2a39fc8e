"""Reading rooms."""

from collections.abc import Sequence

import pytest

from federation.events.room_event import RoomEvent
from federation.matrix.errors import MatrixError
from federation.matrix.message_content import in_thread, text
from tests.federation.local_users.homes import Home, bodies


async def all_of(home: Home, room_id: str, limit: int, reader: str | None = None) -> Sequence[RoomEvent]:
    """Read page by page from the end."""
    events: list[RoomEvent] = []
    start: str | None = None
    while True:
        page = await home.rooms.messages(room_id, start=start, limit=limit, reader=reader)
        assert len(page.events) <= limit
        events += page.events
        start = page.next
        if start is None:
            return events


async def test_the_timeline_is_read_page_by_page_in_both_directions(home: Home) -> None:
    """No event is missing or repeated, whatever the page size."""
    alice = await home.user("alice")
    room_id = await home.room(alice)
    said = [str(number) for number in range(25)]
    for body in said:
        await home.say(room_id, alice, body)
    for limit in (1, 7, 100):
        events = await all_of(home, room_id, limit)
        assert bodies(events) == said[::-1]
        assert events[-1].type == "m.room.create"
    first = await home.rooms.messages(room_id, backwards=False, limit=10)
    assert first.events[0].type == "m.room.create"
    rest = await home.rooms.messages(room_id, start=first.next, backwards=False, limit=1000)
    assert bodies([*first.events, *rest.events]) == said
    assert rest.next is None
    for wrong in ("x", "1_2_3", "\0"):
        with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
            await home.rooms.messages(room_id, start=wrong)
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        await home.rooms.messages("!no:here.test")


async def test_history_is_fetched_from_another_server(pair: tuple[Home, Home]) -> None:
    """Only as far as it is read. Events redacted there are redacted here."""
    here, there = pair
    alice, bob = await here.user("alice"), await there.user("bob")
    room_id = await here.room(alice)
    said = [await here.say(room_id, alice, str(number)) for number in range(150)]
    await here.rooms.redact(room_id, alice, said[100])
    await there.rooms.join(room_id, bob, via=["here.test"])
    page = await there.rooms.messages(room_id, limit=10)
    assert bodies(page.events) == [str(number) for number in range(149, 141, -1)]
    assert len([path for path, _, _ in here.seen.answered if "backfill" in path]) == 1
    events = await all_of(there, room_id, 60)
    assert bodies(events) == [None if n == 100 else str(n) for n in range(149, -1, -1)]
    assert [event.event_id for event in events if event.is_redacted] == [said[100]]
    assert events[-1].type == "m.room.create"


async def test_the_context_of_an_event(home: Home) -> None:
    """Only events of the same room."""
    alice = await home.user("alice")
    room_id, other = await home.room(alice), await home.room(alice)
    said = [await home.say(room_id, alice, str(number)) for number in range(7)]
    context = await home.rooms.context(room_id, said[3], limit=2)
    assert context is not None
    assert context.event.content["body"] == "3"
    assert bodies(context.before.events) == ["2", "1"]
    assert bodies(context.after.events) == ["4", "5"]
    further = await home.rooms.messages(room_id, start=context.before.next, limit=1)
    assert bodies(further.events) == ["0"]
    for room, event_id in ((other, said[3]), (room_id, "$unknown"), (room_id, "\0")):
        assert await home.rooms.event(room, event_id) is None
        assert await home.rooms.context(room, event_id) is None


async def test_relations_are_read_by_type(home: Home) -> None:
    """Oldest first."""
    alice = await home.user("alice")
    room_id = await home.room(alice)
    root = await home.say(room_id, alice, "root")
    parts = [
        await home.rooms.send(room_id, alice, "m.room.message", in_thread(root, text(str(number))))
        for number in range(3)
    ]
    found = await home.rooms.relations(room_id, root, "m.thread", limit=2)
    assert [event.event_id for event in found] == parts[:2]
    assert await home.rooms.relations(room_id, root, "m.replace") == []
    assert await home.rooms.relations("!other:here.test", root) == []
    # A redacted event has no relation and is not counted.
    await home.rooms.redact(room_id, alice, parts[0])
    found = await home.rooms.relations(room_id, root, "m.thread", limit=2)
    assert [event.event_id for event in found] == parts[1:]
    assert await home.rooms.relations(room_id, "\0", "\0") == []


async def test_the_current_state_is_read_whole_and_in_parts(home: Home) -> None:
    """All of it, by type, and single events."""
    alice = await home.user("alice")
    room_id = await home.room(alice, name="Kitchen")
    await home.rooms.set_state(room_id, alice, "io.x", {"n": 1}, "a")
    await home.rooms.set_state(room_id, alice, "io.x", {"n": 2}, "a")
    state = {(event.type, event.state_key): event for event in await home.rooms.state(room_id)}
    assert state["m.room.create", ""].room_id == room_id
    assert state["io.x", "a"].content == {"n": 2}
    assert [event.content for event in await home.rooms.state(room_id, "io.x")] == [{"n": 2}]
    assert await home.rooms.state_event(room_id, "io.y") is None
    assert await home.rooms.state_event("!no:here.test", "io.x") is None
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        await home.rooms.state("!no:here.test")


@pytest.mark.parametrize(
    ("visibility", "seen"),
    [
        ("world_readable", ["before", "invited", "joined", "left"]),
        ("shared", ["joined"]),
        ("invited", ["invited", "joined"]),
        ("joined", ["joined"]),
    ],
)
async def test_history_visibility_applies_to_a_reader(home: Home, visibility: str, seen: list[str]) -> None:
    """By the membership at the time of the event. Without a reader all events are visible."""
    alice, bob = await home.user("alice"), await home.user("bob")
    room_id = await home.room(alice, history_visibility=visibility)
    event_ids = {"before": await home.say(room_id, alice, "before")}
    await home.rooms.invite(room_id, alice, bob)
    event_ids["invited"] = await home.say(room_id, alice, "invited")
    await home.rooms.join(room_id, bob)
    event_ids["joined"] = await home.say(room_id, alice, "joined")
    if visibility == "shared":
        # A joined user sees earlier events.
        assert bodies(await all_of(home, room_id, 50, bob)) == ["joined", "invited", "before"]
    await home.rooms.leave(room_id, bob)
    event_ids["left"] = await home.say(room_id, alice, "left")
    assert bodies(await all_of(home, room_id, 3, bob)) == seen[::-1]
    for body, event_id in event_ids.items():
        event = await home.rooms.event(room_id, event_id, reader=bob)
        assert (event is not None) == (body in seen)
        assert (await home.rooms.context(room_id, event_id, reader=bob) is not None) == (body in seen)
    assert len(bodies(await all_of(home, room_id, 50))) == 4
    # A user's own memberships are always visible.
    memberships = [event for event in await all_of(home, room_id, 50, bob) if event.state_key == bob]
    assert {"join", "leave"} <= {event.content["membership"] for event in memberships}
