"""`palaver rooms state`."""

import pytest

from bridge.control.server import rooms
from storage.errors import LocalError
from tests.bridge.control.server.conftest import Operator


async def test_the_state_is_listed(operator: Operator) -> None:
    """The content is included if a type is given."""
    node, alice = operator.node, operator.node.user("alice")
    room_id = await node.create("12", alice)
    await node.membership.join(room_id, node.user("bob"))
    everything = await operator.ask("rooms-state", room=room_id)
    assert [(one["type"], one["state_key"]) for one in everything["entries"]] == [
        ("m.room.create", ""),
        ("m.room.join_rules", ""),
        ("m.room.member", alice),
        ("m.room.member", node.user("bob")),
        ("m.room.power_levels", ""),
    ]
    assert all("content" not in one for one in everything["entries"])
    members = await operator.ask("rooms-state", room=room_id, type="m.room.member", limit=1)
    assert (members["total"], len(members["entries"])) == (2, 1)
    assert members["entries"][0]["content"] == {"membership": "join"}
    [rules] = (await operator.ask("rooms-state", room=room_id, type="m.room.join_rules", key=""))["entries"]
    assert (rules["content"], rules["sender"]) == ({"join_rule": "public"}, alice)


async def test_a_missing_entry_is_an_error(operator: Operator) -> None:
    """The message says what the state has instead."""
    room_id = await operator.node.create("12", operator.node.user("alice"))
    with pytest.raises(LocalError, match=r"has no m\.room\.name\."):
        await operator.ask("rooms-state", room=room_id, type="m.room.name")
    with pytest.raises(LocalError, match=r"with the state key 'x'\. It has 1"):
        await operator.ask("rooms-state", room=room_id, type="m.room.member", key="x")


async def test_redacted_content_is_not_shown(operator: Operator) -> None:
    """`palaver events show --raw` shows it."""
    node, alice = operator.node, operator.node.user("alice")
    room_id = await node.create("12", alice)
    event = await node.graph.send_event(room_id, "m.room.topic", {"topic": "Secret"}, alice, "")
    content = {"redacts": event.event_id}
    await node.graph.send_event(room_id, "m.room.redaction", content, alice, redacts=event.event_id)
    [topic] = (await operator.ask("rooms-state", room=room_id, type="m.room.topic"))["entries"]
    assert topic["content"] == {}


async def test_the_size_of_an_answer_is_limited(operator: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Further entries have no content."""
    monkeypatch.setattr(rooms, "MAX_STATE_BYTES", 1_000)
    node, alice = operator.node, operator.node.user("alice")
    room_id = await node.create("12", alice)
    for key in ("a", "b"):
        await node.graph.send_event(room_id, "org.test", {"text": "x" * 400}, alice, key)
    first, second = (await operator.ask("rooms-state", room=room_id, type="org.test"))["entries"]
    assert ("content" in first, "content" in second) == (True, False)
