"""The models of the seven events."""

from typing import Any

from bridge.agents.address import AgentAddress
from bridge.agents.agent import AgentStatus
from bridge.connectors.cis.protocol.events import (
    EVENTS,
    NAMESPACE,
    REQUIRED,
    Heartbeat,
    Message,
    Registered,
    TaskPayload,
    TaskRequest,
    TaskResult,
    Unregistered,
)
from tests.bridge.connectors.cis.event_builders import COORDINATOR, NOON, WORKER, heartbeat, message, request

REGISTERED: dict[str, Any] = {
    "agent_id": "worker-1", "node_id": "kitchen.local", "runtime_type": "kimi", "capabilities": ["coding"],
    "timestamp": "2026-02-08T12:00:00.123456789Z",
}  # fmt: skip


def test_there_are_seven() -> None:
    """With the type names of the specification."""
    assert [type_.removeprefix(NAMESPACE) for type_ in EVENTS] == [
        "registered", "unregistered", "heartbeat", "status_update", "task.request", "task.response",
        "message",
    ]  # fmt: skip


def test_required_fields() -> None:
    """Fields that may be null may be missing. The timestamp is last, so that another missing field is named
    first."""
    assert REQUIRED[Unregistered.TYPE] == ("agent_id", "node_id", "timestamp")
    assert REQUIRED[Message.TYPE] == ("message_id", "from_agent", "message_type", "payload", "timestamp")
    assert REQUIRED[TaskRequest.TYPE] == ("request_id", "from_agent", "to_agent", "task", "timestamp")


def test_fields_are_converted() -> None:
    """To addresses, statuses and times."""
    event = heartbeat()
    assert event.status is AgentStatus.IDLE
    assert event.agent == WORKER
    assert event.sent_at == 1_770_552_000_000
    asked = request()
    assert (asked.from_agent, asked.to_agent, asked.timestamp) == (COORDINATOR, WORKER, NOON)
    assert message().to_agent == COORDINATOR
    assert Registered.model_validate(REGISTERED).timestamp.microsecond == 123_456


def test_missing_optional_fields_are_null() -> None:
    """Fields that published nodes require, even when empty, may be missing in events from others."""
    task = TaskPayload.model_validate({"task_id": "t", "prompt": ""})
    assert (task.context, task.system_prompt, task.model, task.metadata) == ("", None, None, {})
    assert TaskPayload.model_validate({"task_id": "t", "prompt": "", "context": None, "metadata": None}) == task
    assert TaskResult(success=True, output="", exit_code=0).metadata == {}
    assert Message.model_validate(
        {"message_id": "m", "from_agent": "a@b", "message_type": "x", "payload": None, "timestamp": NOON}
    ).to_agent is None  # fmt: skip


def test_unknown_keys_are_kept_under_any_name() -> None:
    """Also under names with a meaning in Python."""
    strange = {"__class__": 1, "model_config": {"extra": "forbid"}, "TYPE": "x", "agent": None}
    event = Heartbeat.model_validate({**heartbeat().model_dump(), **strange})
    assert event.unknown == strange
    assert (event.TYPE, event.agent) == ("io.cis.agent.heartbeat", AgentAddress("worker-1", "kitchen.local"))
    assert event.model_dump() == {**heartbeat().model_dump(), **strange}
