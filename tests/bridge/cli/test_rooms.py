"""`palaver rooms` with a running node."""

import os
import pty

import pytest

from tests.bridge.cli.conftest import OperatedNode

HOSTILE = "Kitchen [bold]\x1b[31m\u202e"


async def named(operated: OperatedNode, name: str) -> str:
    node, alice = operated.node, operated.node.user("alice")
    room_id = await node.create("12", alice)
    await node.graph.send_event(room_id, "m.room.name", {"name": name}, alice, "")
    return room_id


async def test_rooms_are_listed(operated: OperatedNode) -> None:
    """With their names, without control characters, and with the option for the next page."""
    assert "No rooms found." in (await operated.palaver("rooms", "list")).out
    room_id, _ = await named(operated, HOSTILE), await named(operated, "Cellar")
    result = await operated.palaver("rooms", "list")
    assert room_id in result.out
    assert "Kitchen [bold]\\x1b[31m\\u{202e}" in result.out
    assert "\x1b" not in result.out
    page = await operated.palaver("rooms", "list", "--limit", "1")
    assert "continue with --after" in page.out
    assert (await operated.json("rooms", "list", "--search", "CELLAR"))["rooms"][0]["name"] == "Cellar"


async def test_a_room_is_shown(operated: OperatedNode) -> None:
    """As text for people, and as JSON."""
    room_id = await named(operated, HOSTILE)
    node, alice = operated.node, operated.node.user("alice")
    await node.graph.send_event(room_id, "m.room.power_levels", {"users": {"@b:c": 50}}, alice, "")
    result = await operated.palaver("rooms", "show", room_id)
    assert result.code == 0, result
    for words in (room_id, "Kitchen [bold]", "creators", alice, "public", "@b:c 50; others 0", "m.room.create"):
        assert words in result.out
    assert "\x1b" not in result.out
    assert (await operated.json("rooms", "show", room_id))["power_levels"]["users"] == {"@b:c": 50}


async def test_the_state_is_shown(operated: OperatedNode) -> None:
    """All of it as a list, a part with its content. An empty state key is one."""
    room_id = await named(operated, HOSTILE)
    every = await operated.palaver("rooms", "state", room_id)
    assert "m.room.join_rules" in every.out
    assert "4 of 5" in (await operated.palaver("rooms", "state", room_id, "--limit", "4")).out
    name = await operated.palaver("rooms", "state", room_id, "m.room.name", "")
    assert '"name": "Kitchen [bold]\\u001b[31m\\u{202e}"' in name.out
    gone = await operated.palaver("rooms", "state", room_id, "m.room.topic")
    assert (gone.code, "has no m.room.topic" in gone.err) == (1, True)


async def test_the_graph_is_drawn(operated: OperatedNode) -> None:
    """As text, as Graphviz source, and as JSON."""
    room_id = await named(operated, HOSTILE)
    node, alice = operated.node, operated.node.user("alice")
    result = await node.say(room_id, alice, "hello")
    text = await operated.palaver("rooms", "dag", room_id, "--limit", "2")
    lines = text.out.splitlines()
    assert lines[0].startswith(f"*  {result[:12]}  ")
    assert "(extremity)" in lines[0]
    assert lines[2].endswith("accepted, not shown")
    source = (await operated.palaver("rooms", "dag", room_id, "--dot")).out
    assert source.startswith("digraph room {\n")
    assert (await operated.json("rooms", "dag", room_id, "--dot"))["dot"] == source
    part = await operated.json("rooms", "dag", room_id, "--from", result, "--limit", "1")
    assert [event["event_id"] for event in part["events"]] == [result]


async def test_leaving_needs_a_confirmation(operated: OperatedNode) -> None:
    """Without a terminal it must be given as --yes."""
    node, alice = operated.node, operated.node.user("alice")
    room_id = await named(operated, "Kitchen")
    result = await operated.palaver("rooms", "leave", room_id)
    assert (result.code, "--yes" in result.err) == (1, True)
    assert await node.membership_of(room_id, alice) == "join"
    result = await operated.palaver("rooms", "leave", room_id, "--yes")
    assert (result.code, alice in result.out, "left" in result.out) == (0, True, True)
    assert await node.membership_of(room_id, alice) == "leave"
    result = await operated.palaver("rooms", "leave", room_id, "--yes")
    assert (result.code, "No user of this server" in result.out) == (0, True)


@pytest.mark.parametrize(("answer", "membership"), [(b"n\n", "join"), (b"y\n", "leave")])
async def test_on_a_terminal_a_confirmation_is_requested(
    operated: OperatedNode, monkeypatch: pytest.MonkeyPatch, answer: bytes, membership: str
) -> None:
    """It lists the users who will leave."""
    node, alice = operated.node, operated.node.user("alice")
    room_id = await named(operated, "Kitchen")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r") as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        os.write(ours, answer)
        result = await operated.palaver("rooms", "leave", "Kitchen", "--user", alice)
    os.close(ours)
    assert f"{alice} (join)." in result.out
    assert await node.membership_of(room_id, alice) == membership
    assert result.code == (0 if membership == "leave" else 1)


async def test_a_user_who_cannot_leave_is_reported(operated: OperatedNode) -> None:
    """The exit code is 1."""
    node, alice = operated.node, operated.node.user("alice")
    room_id = await named(operated, "Kitchen")
    await node.membership.leave(room_id, alice)
    async with node.database.transaction() as connection:
        await connection.execute("UPDATE current_state SET membership = 'join' WHERE state_key = $1", alice)
    result = await operated.palaver("rooms", "leave", room_id, "--yes")
    assert (result.code, "M_FORBIDDEN" in result.out) == (1, True)
