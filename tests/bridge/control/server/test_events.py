"""`palaver events show`."""

from tests.bridge.control.server.conftest import Operator


async def test_an_event_is_shown_with_its_references(operator: Operator) -> None:
    """In both directions, with its position and its signatures."""
    node, alice = operator.node, operator.node.user("alice")
    room_id = await node.create("12", alice)
    first = await node.say(room_id, alice, "one")
    second = await node.say(room_id, alice, "two")
    event = await operator.ask("events-show", event=first)
    assert (event["room_id"], event["room_version"], event["verdict"]) == (room_id, "12", "accepted")
    assert (event["refusal"], event["is_outlier"], event["is_extremity"]) == (None, False, False)
    assert (event["sender_server"], event["signed_by"]) == ("here.test", ["here.test"])
    assert event["event"]["content"] == {"msgtype": "m.text", "body": "one"}
    assert event["state_before"] == event["state_after"] is not None
    assert [one["verdict"] for one in event["prev_events"]] == ["accepted"]
    assert {one["verdict"] for one in event["auth_events"]} == {"accepted"}
    assert event["named_by"] == [{"event_id": second, "as_previous": True, "as_auth": False}]
    assert (await operator.ask("events-show", event=second))["is_extremity"]


async def test_a_state_event_is_marked(operator: Operator) -> None:
    """With the events that have it as an auth event."""
    node, alice = operator.node, operator.node.user("alice")
    room_id = await node.create("12", alice)
    event_id = await node.say(room_id, alice, "one")
    topics = [await node.graph.send_event(room_id, "m.room.topic", {"topic": text}, alice, "") for text in "ab"]
    shown = [await operator.ask("events-show", event=topic.event_id) for topic in topics]
    assert [one["is_current_state"] for one in shown] == [False, True]
    state = await node.graph.current_state(room_id)
    levels = await operator.ask("events-show", event=state["m.room.power_levels", ""])
    assert {"event_id": event_id, "as_previous": False, "as_auth": True} in levels["named_by"]
    create = await operator.ask("events-show", event=state["m.room.create", ""])
    assert (create["prev_events"], create["auth_events"]) == ([], [])


async def test_a_redacted_event_is_shown_as_clients_see_it(operator: Operator) -> None:
    """With its redaction. The stored content is shown only with `raw`."""
    node, alice = operator.node, operator.node.user("alice")
    room_id = await node.create("12", alice)
    event_id = await node.say(room_id, alice, "secret")
    redaction = await node.graph.send_event(room_id, "m.room.redaction", {"redacts": event_id}, alice, redacts=event_id)
    event = await operator.ask("events-show", event=event_id)
    assert (event["is_redacted"], event["event"]["content"]) == (True, {})
    assert event["redactions"] == [{"event_id": redaction.event_id, "sender": alice, "verdict": "accepted"}]
    raw = await operator.ask("events-show", event=event_id, raw=True)
    assert raw["event"]["content"]["body"] == "secret"
    assert (await operator.ask("events-show", event=redaction.event_id))["redacts"] == event_id


async def test_missing_references_have_no_verdict(operator: Operator) -> None:
    """A joined room has no earlier events here."""
    node, there = operator.node, operator.there
    carol = there.user("carol")
    room_id = await there.create("12", carol)
    await there.say(room_id, carol, "before you came")
    await node.membership.join(room_id, node.user("bob"), ["there.test"])
    state = await node.graph.current_state(room_id)
    join = await operator.ask("events-show", event=state["m.room.member", node.user("bob")])
    assert [one["verdict"] for one in join["prev_events"]] == [None]
    create = await operator.ask("events-show", event=state["m.room.create", ""])
    assert (create["is_outlier"], create["state_before"], create["is_current_state"]) == (True, None, True)
