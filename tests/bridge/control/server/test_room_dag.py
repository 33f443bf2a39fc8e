"""`palaver rooms dag`."""

import pytest

from federation.events import Pdu, Template, build
from storage.errors import LocalError
from tests.bridge.control.server.conftest import Operator
from tests.federation.nodes import signer_of


async def forked(operator: Operator) -> tuple[str, str, str, str]:
    """Create a room with two concurrent messages of two servers. Returns the room's id, the event before
    them, and both messages."""
    here, there = operator.node, operator.there
    alice, carol = here.user("alice"), there.user("carol")
    room_id = await here.create("12", alice)
    await there.membership.join(room_id, carol, ["here.test"])
    await here.until_member(room_id, carol, "join")
    view = await there.graph.room(room_id)
    assert view is not None
    [before] = view.forward_extremities
    sent = await here.say(room_id, alice, "mine")
    await there.until(lambda event_id, _: event_id == sent)
    keys = [("m.room.power_levels", ""), ("m.room.member", carol)]
    state = await there.graph.current_events(room_id, keys)
    template = Template(
        "m.room.message",
        carol,
        {"msgtype": "m.text", "body": "theirs"},
        1,
        room_id=room_id,
        prev_events=[before],
        prev_depths=[(await there.graph.events([before]))[before].depth],
        auth_events=[event.event_id for event in state.values()],
    )
    theirs = build(template, view.version, signer_of("there.test"))
    assert isinstance(theirs, Pdu)
    await here.graph.receive("there.test", [theirs.event])
    return room_id, before, sent, theirs.event_id


async def test_a_fork_is_shown(operator: Operator) -> None:
    """Each event is before its prev events, and the next message joins the branches."""
    room_id, before, mine, theirs = await forked(operator)
    dag = await operator.ask("rooms-dag", room=room_id)
    events = {event["event_id"]: event for event in dag["events"]}
    assert set(dag["extremities"]) == {mine, theirs} == {one for one in events if events[one]["is_extremity"]}
    assert events[before]["followed_by"] == 2
    assert events[theirs]["prev_events"] == [before]
    order = list(events)
    assert order.index(before) > max(order.index(mine), order.index(theirs))
    assert events[order[-1]]["type"] == "m.room.create"
    assert dag["beyond"] == {}
    joined = await operator.node.say(room_id, operator.node.user("alice"), "again")
    newest = (await operator.ask("rooms-dag", room=room_id, limit=1))["events"][0]
    assert newest["event_id"] == joined
    assert set(newest["prev_events"]) == {mine, theirs}


async def test_a_part_of_the_graph_has_the_prev_events_beyond_it(operator: Operator) -> None:
    """It can begin with any event of the room."""
    room_id, before, mine, _ = await forked(operator)
    dag = await operator.ask("rooms-dag", room=room_id, start=before, limit=1)
    [event] = dag["events"]
    assert event["event_id"] == before
    assert dag["beyond"] == {event["prev_events"][0]: "accepted"}
    with pytest.raises(LocalError, match="has no event"):
        await operator.ask("rooms-dag", room=room_id, start="$nothing")
    elsewhere = await operator.node.create("12", operator.node.user("alice"))
    with pytest.raises(LocalError, match="an event of another room"):
        await operator.ask("rooms-dag", room=elsewhere, start=mine)


async def test_a_gap_is_shown(operator: Operator) -> None:
    """A server that joins a room has no earlier events."""
    here, there = operator.node, operator.there
    carol = there.user("carol")
    room_id = await there.create("12", carol)
    sent = await there.say(room_id, carol, "before you came")
    await here.membership.join(room_id, here.user("bob"), ["there.test"])
    dag = await operator.ask("rooms-dag", room=room_id)
    assert [event["type"] for event in dag["events"]] == ["m.room.member"]
    assert dag["beyond"] == {sent: None}


async def test_a_rejected_event_has_its_rule(operator: Operator) -> None:
    """It is part of the graph."""
    room_id, before, _, _ = await forked(operator)
    there = operator.there
    eve = there.user("eve")
    view = await there.graph.room(room_id)
    assert view is not None
    template = Template(
        "m.room.message",
        eve,
        {"body": "I am not in it"},
        1,
        room_id=room_id,
        prev_events=[before],
        prev_depths=[5],
        auth_events=[],
    )
    refused = build(template, view.version, signer_of("there.test"))
    assert isinstance(refused, Pdu)
    await operator.node.graph.receive("there.test", [refused.event])
    events = {one["event_id"]: one for one in (await operator.ask("rooms-dag", room=room_id))["events"]}
    assert events[refused.event_id]["verdict"] == "rejected"
    assert events[refused.event_id]["refusal"]
