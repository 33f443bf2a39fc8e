"""`palaver events` with a running node."""

from tests.bridge.cli.conftest import OperatedNode


async def test_an_event_is_shown(operated: OperatedNode) -> None:
    """With its verdict, its references and its JSON, without control characters."""
    node, alice = operated.node, operated.node.user("alice")
    room_id = await node.create("12", alice)
    result = await node.say(room_id, alice, "[red]\x1b[2J\u202e")
    later = await node.say(room_id, alice, "more")
    shown = await operated.palaver("events", "show", result)
    assert shown.code == 0, shown
    for words in (result, room_id, "accepted", "prev event of", later, '"body": "[red]\\u001b[2J\\u{202e}"'):
        assert words in shown.out
    assert "\x1b" not in shown.out
    assert (await operated.json("events", "show", result[1:15]))["event"]["content"]["body"].startswith("[red]")


async def test_redacted_content_is_shown_only_with_raw(operated: OperatedNode) -> None:
    """By default the event is shown as clients see it."""
    node, alice = operated.node, operated.node.user("alice")
    room_id = await node.create("12", alice)
    result = await node.say(room_id, alice, "secret")
    redaction = await node.graph.send_event(room_id, "m.room.redaction", {"redacts": result}, alice, redacts=result)
    shown = await operated.palaver("events", "show", result)
    assert (f"{redaction.event_id} by {alice}" in shown.out, "secret" in shown.out) == (True, False)
    assert "secret" in (await operated.palaver("events", "show", result, "--raw")).out


async def test_an_outlier_is_shown(operated: OperatedNode) -> None:
    """Events received with a join have no position in the graph, and their prev events may be missing."""
    node, there = operated.node, operated.there
    carol, bob = there.user("carol"), node.user("bob")
    room_id = await there.create("12", carol)
    await there.say(room_id, carol, "before you came")
    await node.membership.join(room_id, bob, ["there.test"])
    state = await node.graph.current_state(room_id)
    create = await operated.palaver("events", "show", state["m.room.create", ""])
    assert "outlier: it was received as part of a state; part of the current state" in create.out
    join = await operated.palaver("events", "show", state["m.room.member", bob])
    assert "(missing)" in join.out


async def test_an_unknown_event_is_an_error(operated: OperatedNode) -> None:
    """The advice mentions the quoting of ids in shells."""
    result = await operated.palaver("events", "show", "$nothing")
    assert (result.code, "single quotes" in result.err) == (1, True)
