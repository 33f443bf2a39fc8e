"""`palaver rooms`, from the words to the node and back."""

import os
import pty

import pytest

from tests.bridge.cli.conftest import Operated

HOSTILE = "Kitchen [bold]\x1b[31m\u202e"


async def named(operated: Operated, name: str) -> str:
    node, alice = operated.node, operated.node.user("alice")
    room_id = await node.create("12", alice)
    await node.graph.send_event(room_id, "m.room.name", {"name": name}, alice, "")
    return room_id


async def test_rooms_are_listed(operated: Operated) -> None:
    """With their names, which others have chosen; and how to go on."""
    assert "No room." in (await operated.palaver("rooms", "list")).out
    room_id, _ = await named(operated, HOSTILE), await named(operated, "Cellar")
    said = await operated.palaver("rooms", "list")
    assert room_id in said.out
    assert "Kitchen [bold]\\x1b[31m\\u{202e}" in said.out
    assert "\x1b" not in said.out
    page = await operated.palaver("rooms", "list", "--limit", "1")
    assert "go on with --after" in page.out
    assert (await operated.json("rooms", "list", "--search", "CELLAR"))["rooms"][0]["name"] == "Cellar"


async def test_a_room_is_shown(operated: Operated) -> None:
    """For people in words; for programs as the node says it."""
    room_id = await named(operated, HOSTILE)
    node, alice = operated.node, operated.node.user("alice")
    await node.graph.send_event(room_id, "m.room.power_levels", {"users": {"@b:c": 50}}, alice, "")
    said = await operated.palaver("rooms", "show", room_id)
    assert said.code == 0, said
    for words in (
        room_id,
        "Kitchen [bold]",
        "made by",
        alice,
        "public",
        "@b:c 50; others 0",
        "m.room.create",
    ):
        assert words in said.out
    assert "\x1b" not in said.out
    assert (await operated.json("rooms", "show", room_id))["power_levels"]["users"] == {"@b:c": 50}


async def test_the_state_is_shown(operated: Operated) -> None:
    """All of it as a list, a part of it with its content, an empty key as one."""
    room_id = await named(operated, HOSTILE)
    every = await operated.palaver("rooms", "state", room_id)
    assert "m.room.join_rules" in every.out
    assert "4 of 5" in (await operated.palaver("rooms", "state", room_id, "--limit", "4")).out
    name = await operated.palaver("rooms", "state", room_id, "m.room.name", "")
    assert '"name": "Kitchen [bold]\\u001b[31m\\u{202e}"' in name.out
    gone = await operated.palaver("rooms", "state", room_id, "m.room.topic")
    assert (gone.code, "has no m.room.topic" in gone.err) == (1, True)


async def test_the_graph_is_drawn(operated: Operated) -> None:
    """As text, for Graphviz, and for programs."""
    room_id = await named(operated, HOSTILE)
    node, alice = operated.node, operated.node.user("alice")
    said = await node.say(room_id, alice, "hello")
    text = await operated.palaver("rooms", "dag", room_id, "--limit", "2")
    lines = text.out.splitlines()
    assert lines[0].startswith(f"*  {said[:12]}  ")
    assert "(end)" in lines[0]
    assert lines[2].endswith("accepted, not shown")
    source = (await operated.palaver("rooms", "dag", room_id, "--dot")).out
    assert source.startswith("digraph room {\n")
    assert (await operated.json("rooms", "dag", room_id, "--dot"))["dot"] == source
    part = await operated.json("rooms", "dag", room_id, "--from", said, "--limit", "1")
    assert [event["event_id"] for event in part["events"]] == [said]


async def test_leaving_needs_a_yes(operated: Operated) -> None:
    """Where there is no terminal to ask on it must be said before."""
    node, alice = operated.node, operated.node.user("alice")
    room_id = await named(operated, "Kitchen")
    said = await operated.palaver("rooms", "leave", room_id)
    assert (said.code, "--yes" in said.err) == (1, True)
    assert await node.membership_of(room_id, alice) == "join"
    said = await operated.palaver("rooms", "leave", room_id, "--yes")
    assert (said.code, alice in said.out, "left" in said.out) == (0, True, True)
    assert await node.membership_of(room_id, alice) == "leave"
    said = await operated.palaver("rooms", "leave", room_id, "--yes")
    assert (said.code, "None of this server's users" in said.out) == (0, True)


@pytest.mark.parametrize(("answer", "membership"), [(b"n\n", "join"), (b"y\n", "leave")])
async def test_on_a_terminal_it_asks(
    operated: Operated, monkeypatch: pytest.MonkeyPatch, answer: bytes, membership: str
) -> None:
    """Who would leave, and whether they shall."""
    node, alice = operated.node, operated.node.user("alice")
    room_id = await named(operated, "Kitchen")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "r") as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        os.write(ours, answer)
        said = await operated.palaver("rooms", "leave", "Kitchen", "--user", alice)
    os.close(ours)
    assert f"{alice} (join)." in said.out
    assert await node.membership_of(room_id, alice) == membership
    assert said.code == (0 if membership == "leave" else 1)


async def test_one_who_cannot_leave_is_told(operated: Operated) -> None:
    """With the exit code of a failure."""
    node, alice = operated.node, operated.node.user("alice")
    room_id = await named(operated, "Kitchen")
    await node.membership.leave(room_id, alice)
    async with node.database.transaction() as connection:
        await connection.execute("UPDATE current_state SET membership = 'join' WHERE state_key = $1", alice)
    said = await operated.palaver("rooms", "leave", room_id, "--yes")
    assert (said.code, "M_FORBIDDEN" in said.out) == (1, True)
