"""The two shapes of an event's content."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.cis.protocol import content, json_values
from bridge.connectors.cis.protocol.content import UnknownType
from bridge.connectors.cis.protocol.events import EVENTS, REQUIRED, AnyEvent, Message, Registered
from bridge.connectors.cis.protocol.refusals import InvalidPayload
from bridge.peers.peer import PeerProfile
from federation.matrix.canonical_json import encode
from tests.bridge.connectors.cis.event_builders import ANY, heartbeat, message, registered, request
from tests.bridge.connectors.cis.samples import HOSTILE, nested

FLAT: dict[str, dict[str, Any]] = {
    type_: content.render(event, PeerProfile.MATRIX)
    for type_, event in {
        Registered.TYPE: registered(),
        "io.cis.agent.heartbeat": heartbeat(),
        Message.TYPE: message({"percent": 50}),
        "io.cis.agent.task.request": request(),
    }.items()
}


def nest(flat: dict[str, Any]) -> dict[str, Any]:
    return {"event_type": flat["event_type"], "payload": {name: flat[name] for name in flat if name != "event_type"}}


def refusal(type_: str, given_: object) -> str:
    refused = content.read(type_, given_)
    assert isinstance(refused, InvalidPayload), refused
    return str(refused).removeprefix("INVALID_PAYLOAD: ")


@pytest.mark.parametrize("type_", FLAT)
def test_both_shapes_are_read_as_the_same_event(type_: str) -> None:
    """From any peer. `event_type` may be missing in either shape."""
    event = content.read(type_, FLAT[type_])
    assert isinstance(event, EVENTS[type_])
    assert content.read(type_, nest(FLAT[type_])) == event
    assert content.read(type_, {"payload": nest(FLAT[type_])["payload"]}) == event
    assert content.read(type_, {name: FLAT[type_][name] for name in FLAT[type_] if name != "event_type"}) == event


@pytest.mark.parametrize("type_", EVENTS)
@given(data=st.data())
def test_rendered_content_is_read_as_the_same_event(type_: str, data: st.DataObject) -> None:
    """In both profiles and with unknown keys; content of the Matrix profile is valid canonical JSON."""
    event = data.draw(ANY[type_])
    flat = content.render(event, PeerProfile.MATRIX)
    assert content.read(type_, json.loads(encode(flat))) == event
    published = content.render(event, PeerProfile.CIS_1_1)
    assert set(published) == {"event_type", "payload"}
    again = content.read(type_, json.loads(json.dumps(published)))
    if isinstance(event, Registered) and event.runtime_type not in {"claude", "open_code", "kimi", "aider"}:
        assert isinstance(again, Registered)
        assert again.runtime_type == "claude"
        assert again.capabilities == (*event.capabilities, f"runtime:{event.runtime_type}")
    else:
        assert again == event


def test_content_for_published_nodes_has_null_and_required_fields() -> None:
    """They write null for missing values, and require `context` and `metadata`."""
    published = content.render(request(), PeerProfile.CIS_1_1)
    assert published == {
        "event_type": "io.cis.agent.task.request",
        "payload": {
            "request_id": "req-1", "from_agent": "coordinator@living.local",
            "to_agent": "worker-1@kitchen.local",
            "task": {
                "task_id": "task-1", "prompt": "do it", "context": "", "system_prompt": None, "model": None,
                "metadata": {},
            },
            "timeout_secs": None, "timestamp": "2026-02-08T12:00:00Z",
        },
    }  # fmt: skip
    assert list(published["payload"])[-1] == "timestamp"
    assert content.render(message(None, None), PeerProfile.CIS_1_1)["payload"]["to_agent"] is None


def test_runtimes_of_each_profile() -> None:
    """Palaver nodes get the true runtime; published nodes get one of the four that they know."""
    assert content.render(registered("opencode"), PeerProfile.MATRIX)["runtime_type"] == "open_code"
    other = registered("my-runtime", ("coding",))
    assert content.render(other, PeerProfile.MATRIX)["runtime_type"] == "my-runtime"
    published = content.render(other, PeerProfile.CIS_1_1)["payload"]
    assert (published["runtime_type"], published["capabilities"]) == ("claude", ["coding", "runtime:my-runtime"])


@pytest.mark.parametrize("type_", FLAT)
def test_a_missing_field_is_named(type_: str) -> None:
    """With its path in the shape of the content."""
    for name in REQUIRED[type_]:
        flat = {key: value for key, value in FLAT[type_].items() if key != name}
        assert refusal(type_, flat) == f"{name} is missing."
        expected = "message_id" if type_ == Message.TYPE and name == "message_id" else f"payload.{name}"
        assert refusal(type_, nest(flat)) == f"{expected} is missing."
    assert refusal(type_, {"event_type": type_}) == f"{REQUIRED[type_][0]} is missing."


def test_the_payload_of_a_message() -> None:
    """`message_id` at the top → flat; `payload.message_id` → nested; both → refused."""
    flat = FLAT[Message.TYPE]
    inner = {"percent": 50, "message_id": "msg-9"}
    assert refusal(Message.TYPE, {**flat, "payload": inner}) == "payload holds the event a second time."
    event = content.read(Message.TYPE, nest({**flat, "payload": inner}))
    assert isinstance(event, Message)
    assert event.payload == inner
    assert set(content.render(event, PeerProfile.MATRIX)) == {"event_type", "payload"}


@pytest.mark.parametrize("type_", sorted(set(FLAT) - {Message.TYPE}))
def test_both_shapes_at_once_are_refused(type_: str) -> None:
    """A published node would read the inner event and this node the outer one. A `payload` that is not an
    event of this type is an unknown key."""
    flat = FLAT[type_]
    assert refusal(type_, {**flat, "payload": flat}) == "payload holds the event a second time."
    event = content.read(type_, {**flat, "payload": {"agent_id": "a"}})
    assert isinstance(event, EVENTS[type_])
    assert event.unknown == {"payload": {"agent_id": "a"}}


def test_unknown_keys_are_kept() -> None:
    """And passed on. Keys beside a nested payload belong to the event, unless the payload has the same
    key."""
    flat = {**FLAT["io.cis.agent.heartbeat"], "x": {"y": [1.5]}}
    event = content.read("io.cis.agent.heartbeat", flat)
    assert not isinstance(event, InvalidPayload | UnknownType)
    assert event.unknown == {"x": {"y": [1.5]}}
    assert content.render(event, PeerProfile.CIS_1_1)["payload"]["x"] == {"y": [1.5]}
    beside = {**nest(flat), "x": 1, "z": 2, json_values.NUMBERS_KEY: []}
    event = content.read("io.cis.agent.heartbeat", beside)
    assert not isinstance(event, InvalidPayload | UnknownType)
    assert event.unknown == {"x": {"y": [1.5]}, "z": 2}
    given_ = {**FLAT["io.cis.agent.task.request"]}
    given_["task"] = {**given_["task"], "priority": 5}
    task = content.read("io.cis.agent.task.request", given_)
    assert not isinstance(task, InvalidPayload | UnknownType)
    assert content.render(task, PeerProfile.MATRIX)["task"]["priority"] == 5


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"event_type": "io.cis.agent.registered"}, "event_type is not the type of the event in which it stands."),
        ({"event_type": None}, "event_type is not the type of the event in which it stands."),
        ({"agent_id": 5}, "agent_id is not a string."),
        ({"agent_id": ""}, "agent_id is not a valid id."),
        ({"agent_id": "a@b"}, "agent_id is not a valid id."),
        ({"agent_id": "x" * 256}, "agent_id is not a valid id."),
        ({"node_id": None}, "node_id is not a string."),
        ({"status": "sleeping"}, "status is not running, idle, busy, error or shutdown."),
        ({"status": "initial"}, "status is not running, idle, busy, error or shutdown."),
        ({"status": ["idle"]}, "status is not a string."),
        ({"timestamp": 1_770_552_000_000}, "timestamp is not a string."),
        ({"timestamp": "noon"}, "timestamp is not a time, as in 2026-02-08T10:30:00Z."),
        ({"x": "\0"}, "x holds NUL."),
        ({"x": {"y": ["\ud800"]}}, "x.y.0 holds half a character."),
        ({"x": 2**64}, "x is a number that is too large."),
        ({"x": nested(200)}, "x is nested deeper than 100 levels."),
        ({json_values.NUMBERS_KEY: 5}, "io.palaver.numbers is not a list of JSON pointers."),
        ({json_values.NUMBERS_KEY: ["/agent_id"]}, "io.palaver.numbers points to a value that is not a number."),
    ],
)
def test_wrong_fields_are_named(change: dict[str, Any], text: str) -> None:
    """`INVALID_PAYLOAD` has the field and the problem."""
    assert refusal("io.cis.agent.heartbeat", {**FLAT["io.cis.agent.heartbeat"], **change}) == text


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("request_id", "", "request_id does not have 1 to 255 bytes."),
        ("from_agent", "coordinator", "from_agent is not an address, as in worker-1@kitchen.local."),
        ("to_agent", "a@b@c", "to_agent is not an address, as in worker-1@kitchen.local."),
        ("to_agent", None, "to_agent is not a string."),
        ("timeout_secs", 0, "timeout_secs is not between 1 and 9007199254740991."),
        ("timeout_secs", 1.0, "timeout_secs is not an integer."),
        ("timeout_secs", True, "timeout_secs is not an integer."),
        ("task", None, "task is not an object."),
        ("task", [], "task is not an object."),
        ("task", {"task_id": "t"}, "task.prompt is missing."),
        ("task", {"task_id": "t", "prompt": 1}, "task.prompt is not a string."),
        ("task", {"task_id": "t", "prompt": "p", "context": {}}, "task.context is not a string."),
        ("task", {"task_id": "t", "prompt": "p", "metadata": []}, "task.metadata is not an object."),
        ("task", {"task_id": "t", "prompt": "p", "model": 1}, "task.model is not a string."),
    ],
)
def test_wrong_fields_of_a_request(field: str, value: Any, text: str) -> None:
    """The path names nested fields."""
    flat = {**FLAT["io.cis.agent.task.request"], field: value}
    assert refusal("io.cis.agent.task.request", flat) == text
    assert refusal("io.cis.agent.task.request", nest(flat)) == f"payload.{text}"


def test_other_types() -> None:
    """Unknown types below `io.cis.agent.` are reported as unknown; other types are refused."""
    assert content.read("io.cis.agent.sang", {"a": 1}) == UnknownType("io.cis.agent.sang")
    assert refusal("io.cis.agent.sang", {"event_type": "io.cis.agent.heartbeat"}).startswith("event_type is not")
    assert refusal("io.cis.agent.sang", {"a": "\0"}) == "a holds NUL."
    assert refusal("m.room.message", {}) == "type is not the type of an agent event."
    assert refusal("io.cis.agent.heartbeat", []) == "content is not an object."


@pytest.mark.parametrize("type_", EVENTS)
@given(data=st.data())
def test_any_content_is_read_or_refused(type_: str, data: st.DataObject) -> None:
    """Reading never raises, and accepted content can be encoded again."""
    names = st.sampled_from([*EVENTS[type_].model_fields, "payload", "event_type", json_values.NUMBERS_KEY])
    base: dict[str, Any] = content.render(data.draw(ANY[type_]), data.draw(st.sampled_from(PeerProfile)))
    changes = data.draw(st.dictionaries(names, HOSTILE, max_size=3))
    where = data.draw(st.sampled_from(["top", "payload"]))
    if where == "payload" and isinstance(base.get("payload"), dict):
        hostile: Any = {**base, "payload": {**base["payload"], **changes}}
    else:
        hostile = {**base, **changes}
    for given_ in (hostile, data.draw(HOSTILE)):
        event = content.read(type_, given_)
        assert not isinstance(event, UnknownType)
        if not isinstance(event, InvalidPayload):
            written(event)


def written(event: AnyEvent) -> None:
    encode(content.render(event, PeerProfile.MATRIX))
    json.dumps(content.render(event, PeerProfile.CIS_1_1), ensure_ascii=False, allow_nan=False).encode()
