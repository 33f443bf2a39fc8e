"""Reading rooms."""

import pytest

from appservice.local_users.reading import MAX_SCANNED_EVENTS
from federation.matrix.errors import MatrixError
from federation.matrix.message_content import in_thread, reply, text
from tests.appservice.local_users.fake_homeserver import ALICE, COOK, EVE, Side, bodies


async def all_of(node_with_rooms: Side, room_id: str, limit: int, reader: str | None = None) -> list[object]:
    """The message texts, page by page from the end."""
    said: list[object] = []
    start: str | None = None
    while True:
        page = await node_with_rooms.side.messages(room_id, start=start, limit=limit, reader=reader)
        said += bodies(page.events)
        start = page.next
        if start is None:
            return said


async def test_timeline_in_pages(node_with_rooms: Side) -> None:
    """In both directions, with any page size."""
    room_id = await node_with_rooms.room()
    wanted = [str(number) for number in range(9)]
    for body in wanted:
        node_with_rooms.said(room_id, COOK, body)
    for limit in (1, 4, 100):
        assert await all_of(node_with_rooms, room_id, limit) == wanted[::-1]
    first = await node_with_rooms.side.messages(room_id, backwards=False, limit=10)
    assert first.events[0].type == "m.room.create"
    rest = await node_with_rooms.side.messages(room_id, start=first.next, backwards=False, limit=100)
    assert bodies([*first.events, *rest.events]) == wanted
    assert rest.next is None
    for wrong in ("", "\0", "x" * 10_000, "no place"):
        with pytest.raises(MatrixError, match="400 M_INVALID_PARAM: Invalid pagination token"):
            await node_with_rooms.side.messages(room_id, start=wrong)


async def test_relations_oldest_first(node_with_rooms: Side) -> None:
    """Including replies, of which the homeserver has no index; redacted ones are omitted."""
    room_id = await node_with_rooms.room()
    root = node_with_rooms.said(room_id, ALICE, "root")
    happens = node_with_rooms.rooms.happens
    threaded = [happens(room_id, COOK, "m.room.message", in_thread(root, text(str(number)))) for number in range(3)]
    answer = happens(room_id, EVE, "m.room.message", reply(root, text("yes")))
    gone = happens(room_id, EVE, "m.room.message", {})
    late = happens(room_id, COOK, "m.room.message", in_thread(root, text("late")))

    async def related(kind: str | None = None, limit: int = 100) -> list[str]:
        return [one.event_id for one in await node_with_rooms.side.relations(room_id, root, kind, limit=limit)]

    assert await related() == [*threaded, answer, late]
    assert await related("m.in_reply_to") == [answer]
    assert await related("m.thread", limit=2) == threaded[:2]
    assert await related("m.replace") == []
    assert gone not in await related()
    for wrong in ("\0", "", "x" * 1_000):
        assert await node_with_rooms.side.relations(room_id, root, wrong) == []
        assert await node_with_rooms.side.relations(room_id, wrong) == []


async def test_distant_relations(node_with_rooms: Side) -> None:
    """After the near ones."""
    room_id = await node_with_rooms.room()
    root = node_with_rooms.said(room_id, ALICE, "root")
    near = node_with_rooms.rooms.happens(room_id, COOK, "m.room.message", in_thread(root, text("near")))
    for number in range(MAX_SCANNED_EVENTS):
        node_with_rooms.said(room_id, COOK, str(number))
    far = node_with_rooms.rooms.happens(room_id, COOK, "m.room.message", in_thread(root, text("far")))
    found = await node_with_rooms.side.relations(room_id, root)
    assert [one.event_id for one in found] == [near, far]


@pytest.mark.parametrize("reader", [ALICE, EVE])
@pytest.mark.parametrize(
    ("visibility", "seen"),
    [
        ("world_readable", ["before", "invited", "joined", "left"]),
        ("shared", ["joined"]),
        ("invited", ["invited", "joined"]),
        ("joined", ["joined"]),
    ],
)
async def test_history_visibility(node_with_rooms: Side, visibility: str, seen: list[str], reader: str) -> None:
    """By the membership at the time. The node itself reads everything."""
    room_id = await node_with_rooms.room(history_visibility=visibility)
    ids = {"before": node_with_rooms.said(room_id, COOK, "before")}
    node_with_rooms.rooms.moves(room_id, reader, "invite", COOK)
    ids["invited"] = node_with_rooms.said(room_id, COOK, "invited")
    node_with_rooms.rooms.moves(room_id, reader, "join")
    ids["joined"] = node_with_rooms.said(room_id, COOK, "joined")
    await node_with_rooms.tell()
    if visibility == "shared":
        assert await all_of(node_with_rooms, room_id, 50, reader) == ["joined", "invited", "before"]
        # For a room that was never hidden, no event is examined.
        assert len(node_with_rooms.asked("/context")) == 1
    node_with_rooms.rooms.moves(room_id, reader, "leave")
    ids["left"] = node_with_rooms.said(room_id, COOK, "left")
    await node_with_rooms.tell()
    for limit in (1, 3, 50):
        assert await all_of(node_with_rooms, room_id, limit, reader) == seen[::-1]
    forward = await node_with_rooms.side.messages(room_id, backwards=False, limit=50, reader=reader)
    assert bodies(forward.events) == seen
    for body, event_id in ids.items():
        assert (await node_with_rooms.side.event(room_id, event_id, reader=reader) is not None) == (body in seen)
        assert (await node_with_rooms.side.context(room_id, event_id, reader=reader) is not None) == (body in seen)
    assert len(await all_of(node_with_rooms, room_id, 50)) == 4
    own = [event for event in forward.events if event.state_key == reader]
    assert {"join", "leave"} <= {event.content["membership"] for event in own}


async def test_formerly_hidden_history(node_with_rooms: Side) -> None:
    """Although every member sees newer events."""
    room_id = await node_with_rooms.room(history_visibility="joined")
    node_with_rooms.said(room_id, COOK, "secret")
    node_with_rooms.rooms.happens(room_id, COOK, "m.room.history_visibility", {"history_visibility": "shared"}, "")
    node_with_rooms.said(room_id, COOK, "open")
    node_with_rooms.rooms.moves(room_id, ALICE, "join")
    await node_with_rooms.tell()
    assert await all_of(node_with_rooms, room_id, 50, ALICE) == ["open"]
    assert await all_of(node_with_rooms, room_id, 50) == ["open", "secret"]


async def test_context(node_with_rooms: Side) -> None:
    """Only in the requested room, with tokens for both directions."""
    room_id, other = await node_with_rooms.room(), await node_with_rooms.room()
    ids = [node_with_rooms.said(room_id, COOK, str(number)) for number in range(7)]
    context = await node_with_rooms.side.context(room_id, ids[3], limit=2)
    assert context is not None
    assert context.event.content["body"] == "3"
    assert bodies(context.before.events) == ["2", "1"]
    assert bodies(context.after.events) == ["4", "5"]
    further = await node_with_rooms.side.messages(room_id, start=context.before.next, limit=1)
    assert bodies(further.events) == ["0"]
    further = await node_with_rooms.side.messages(room_id, start=context.after.next, limit=9, backwards=False)
    assert bodies(further.events) == ["6"]
    for room, event_id in ((other, ids[3]), (room_id, "$unknown"), (room_id, "\0"), (room_id, "../x")):
        assert await node_with_rooms.side.event(room, event_id) is None
        assert await node_with_rooms.side.context(room, event_id) is None
    # The homeserver returns another event.
    node_with_rooms.rooms.instead["/event/"] = node_with_rooms.rooms.happened[room_id][-1]
    assert await node_with_rooms.side.event(room_id, ids[3]) is None


async def test_state_is_read_from_the_database(node_with_rooms: Side) -> None:
    """Without requests."""
    room_id = await node_with_rooms.room(name="Kitchen")
    state = {(event.type, event.state_key): event for event in await node_with_rooms.side.state(room_id)}
    assert state["m.room.name", ""].content == {"name": "Kitchen"}
    before = len(node_with_rooms.homeserver.targets)
    assert [event.content for event in await node_with_rooms.side.state(room_id, "m.room.name")] == [
        {"name": "Kitchen"}
    ]
    assert await node_with_rooms.side.state_event(room_id, "m.room.topic") is None
    assert len(node_with_rooms.homeserver.targets) == before
    assert await node_with_rooms.side.state_event("!no:their.server", "m.room.name") is None
    with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
        await node_with_rooms.side.state("!no:their.server")
