"""Reading rooms through the homeserver."""

import pytest

from appservice.local_users.lookups import (
    MAX_AT_ONCE,
    MAX_FETCHES,
    MAX_PAGINATION_TOKEN,
    is_pagination_token,
    is_requestable,
    parse_events,
)
from federation.matrix.errors import MatrixError
from tests.appservice.local_users.fake_homeserver import COOK, EVE, Side, bodies


def test_invalid_events_are_skipped() -> None:
    """Also events of other rooms, and more events than requested."""
    event = {"event_id": "$a", "sender": COOK, "type": "m.x", "content": {}, "unsigned": 7}
    assert [told.event.event_id for told in parse_events([event, 7, {}, {**event, "content": []}], "!a:b")] == ["$a"]
    assert parse_events([{**event, "room_id": "!c:d"}], "!a:b") == []
    assert parse_events([event], "!a:b")[0].unsigned == {}
    for wrong in (None, {"a": event}, "x"):
        assert parse_events(wrong, "!a:b") == []
    assert len(parse_events([event] * 3 * MAX_AT_ONCE, "!a:b")) == 2 * MAX_AT_ONCE


def test_tokens_and_ids_are_validated() -> None:
    """They become part of a URL."""
    for wrong in ("", "x" * (MAX_PAGINATION_TOKEN + 1), "a b\n", "ü", "\0"):
        assert not is_pagination_token(wrong)
    assert is_pagination_token("t14-32_0")
    for wrong in ("", "$", "x", "$\0", "$\ud800", "$" + "x" * 300):
        assert not is_requestable(wrong)
    assert is_requestable("$GgTHyj:a/b")


async def test_short_pages_are_continued(node_with_rooms: Side) -> None:
    """The homeserver may omit events. The number of requests is limited."""
    room_id = await node_with_rooms.room()
    for number in range(5):
        node_with_rooms.said(room_id, COOK, str(number))
    few = {"chunk": [], "end": "more"}
    node_with_rooms.rooms.instead["messages"] = few
    page = await node_with_rooms.side.messages(room_id, limit=3)
    assert (page.events, page.next) == ([], None)
    # The second token equals the first one.
    assert len(node_with_rooms.asked("/messages")) == 2
    node_with_rooms.rooms.instead.clear()
    node_with_rooms.rooms.endless = True
    page = await node_with_rooms.side.messages(room_id, limit=3)
    assert (page.events, page.next) == ([], None)
    assert len(node_with_rooms.asked("/messages")) == 2 + MAX_FETCHES


async def test_removed_viewer_is_replaced(node_with_rooms: Side) -> None:
    """By another ghost in the room."""
    room_id = await node_with_rooms.room(preset="public_chat")
    await node_with_rooms.side.join(room_id, EVE)
    node_with_rooms.said(room_id, COOK, "soup")
    resident = await node_with_rooms.side._resident(room_id)
    other = EVE if resident == COOK else COOK
    # The homeserver has not pushed it yet.
    node_with_rooms.rooms.happened[room_id][:] = [
        one for one in node_with_rooms.rooms.happened[room_id] if one.get("state_key") != resident
    ]
    page = await node_with_rooms.side.messages(room_id)
    assert bodies(page.events) == ["soup"]
    asked = [one for one in node_with_rooms.homeserver.server.requests if "messages" in one.path]
    assert [request.query["user_id"] for request in asked][:2] == [resident, other]
    assert resident not in [request.query["user_id"] for request in asked][1:]


async def test_room_without_ghosts_is_unknown(node_with_rooms: Side) -> None:
    """As if it did not exist."""
    for room_id in ("!no:their.server", "", "x", "!\0:x"):
        with pytest.raises(MatrixError, match="404 M_NOT_FOUND"):
            await node_with_rooms.side.messages(room_id)
        assert await node_with_rooms.side.event(room_id, "$x") is None
        assert await node_with_rooms.side.context(room_id, "$x") is None
        assert await node_with_rooms.side.relations(room_id, "$x") == []
