"""`palaver events`, from the words to the node and back."""

from tests.bridge.cli.conftest import Operated


async def test_an_event_is_shown(operated: Operated) -> None:
    """What it is and what was made of it; and its JSON, of which nothing reaches the terminal itself."""
    node, alice = operated.node, operated.node.user("alice")
    room_id = await node.create("12", alice)
    said = await node.say(room_id, alice, "[red]\x1b[2J\u202e")
    later = await node.say(room_id, alice, "more")
    shown = await operated.palaver("events", "show", said)
    assert shown.code == 0, shown
    for words in (said, room_id, "accepted", "followed by", later, '"body": "[red]\\u001b[2J\\u{202e}"'):
        assert words in shown.out
    assert "\x1b" not in shown.out
    assert (await operated.json("events", "show", said[1:15]))["event"]["content"]["body"].startswith("[red]")


async def test_what_was_redacted_is_shown_to_whoever_says_so(operated: Operated) -> None:
    """Not to everybody who looks."""
    node, alice = operated.node, operated.node.user("alice")
    room_id = await node.create("12", alice)
    said = await node.say(room_id, alice, "secret")
    redaction = await node.graph.send_event(
        room_id, "m.room.redaction", {"redacts": said}, alice, redacts=said
    )
    shown = await operated.palaver("events", "show", said)
    assert (f"{redaction.event_id} of {alice}" in shown.out, "secret" in shown.out) == (True, False)
    assert "secret" in (await operated.palaver("events", "show", said, "--raw")).out


async def test_a_part_of_a_state_is_shown(operated: Operated) -> None:
    """What came with a join has no place in the graph, and what it follows may not be here."""
    node, there = operated.node, operated.there
    carol, bob = there.user("carol"), node.user("bob")
    room_id = await there.create("12", carol)
    await there.say(room_id, carol, "before you came")
    await node.membership.join(room_id, bob, ["there.test"])
    state = await node.graph.current_state(room_id)
    create = await operated.palaver("events", "show", state["m.room.create", ""])
    assert "unknown: it came as part of a state; part of the current state" in create.out
    join = await operated.palaver("events", "show", state["m.room.member", bob])
    assert "(not here)" in join.out


async def test_an_event_that_is_not_here_is_told(operated: Operated) -> None:
    """With what may have happened to its id on the way."""
    said = await operated.palaver("events", "show", "$nothing")
    assert (said.code, "single quotes" in said.err) == (1, True)
