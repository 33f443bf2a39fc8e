"""The conversion between tasks and events."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.agents.address import AgentAddress
from bridge.connectors.cis import task_events
from bridge.connectors.cis.examination import AgentSender
from bridge.connectors.cis.protocol import content
from bridge.connectors.cis.protocol.error_codes import to_answer
from bridge.connectors.cis.protocol.events import AnyEvent, Message, TaskRequest
from bridge.connectors.cis.settings import CisSettings
from bridge.peers.peer import PeerProfile
from bridge.tasks.answer import Answer, cancelled
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.request import Origin, TaskKey, check_request
from bridge.tasks.request import TaskRequest as Request
from bridge.tasks.task import Task
from federation.matrix.canonical_json import encode
from tests.bridge.connectors.cis.event_builders import COORDINATOR, NOON, WORKER, message, request
from tests.bridge.connectors.cis.samples import HOSTILE, HOSTILE_TEXT

SETTINGS = CisSettings("living.local")
NOW = 1_770_552_000_000
OURS = Task(
    Request(
        key=TaskKey("living.local", "req-1"),
        task_id="task-1",
        from_address=COORDINATOR,
        to_address=WORKER,
        prompt="do it",
        origin=Origin("test"),
        context="here",
        system_prompt="be good",
        model="m",
        metadata={"n": 1},
    ),
    received_at=NOW,
    deadline=NOW + 60_000,
    elsewhere=True,
    id=7,
)


def theirs(**more: Any) -> Task:
    """Return a task that a peer has requested."""
    made = task_events.to_task_request(request(), AgentSender(COORDINATOR), "living.local", "alpha")
    return Task(made, NOW, NOW + 1000, id=8, **more)


def test_a_request_is_read_by_the_other_node() -> None:
    """Without loss; the remaining time is counted from receipt there."""
    event = task_events.request_event(OURS, SETTINGS, NOW + 10_500)
    assert isinstance(event, TaskRequest)
    assert event.timeout_secs == 50
    assert event.timestamp == NOON
    read = task_events.to_task_request(event, AgentSender(COORDINATOR), "living.local", "alpha")
    assert read == replace(
        OURS.request,
        origin=Origin(
            "cis", {"node": "living.local", "namespace": "alpha", "from": str(COORDINATOR), "to": str(WORKER)}
        ),
        timeout_ms=50_000,
    )
    assert check_request(read, 10_000) is None


def test_the_remaining_time_is_at_least_a_second() -> None:
    """The receiving node detects a timeout itself."""
    event = task_events.request_event(OURS, SETTINGS, NOW + 70_000)
    assert isinstance(event, TaskRequest)
    assert event.timeout_secs == 1


def test_a_forwarded_task_is_sent_by_the_node() -> None:
    """Peers accept requests only from agents of this node. The metadata names the requester."""
    person = AgentAddress("alice", "elsewhere")
    task = replace(OURS, request=replace(OURS.request, from_address=person, key=TaskKey("elsewhere", "1")))
    event = task_events.request_event(task, SETTINGS, NOW)
    assert isinstance(event, TaskRequest)
    assert str(event.from_agent) == "palaver@living.local"
    assert event.request_id == "via:elsewhere:1"
    assert event.task.metadata == {"n": 1, "io.palaver.from": "alice@elsewhere"}


def test_an_id_that_would_be_too_long() -> None:
    """It is refused with its error code."""
    task = replace(OURS, request=replace(OURS.request, key=TaskKey("elsewhere", "x" * 250)))
    for event in (task_events.request_event(task, SETTINGS, NOW), task_events.cancel_event(task, SETTINGS, NOW)):
        assert isinstance(event, TaskError)
        assert event.code is ErrorCode.INVALID_PAYLOAD


def test_a_cancellation_names_the_request() -> None:
    """And has the reason."""
    task = replace(OURS, answer=cancelled("alice@living.local", "too slow"))
    event = task_events.cancel_event(task, SETTINGS, NOW)
    assert isinstance(event, Message)
    assert (event.from_agent, event.to_agent, event.message_type) == (COORDINATOR, WORKER, "cancel")
    assert task_events.referenced_request(event) == "req-1"
    assert task_events.reason_of(event) == "Cancelled by alice@living.local: too slow"


def test_an_answer_bears_the_addresses_as_they_were_given() -> None:
    """A published proxy finds its answer by them."""
    proxied = request(from_agent=WORKER, to_agent=WORKER)
    sender = AgentSender(AgentAddress("proxy", "old.local"), is_proxy=True)
    made = task_events.to_task_request(proxied, sender, "old.local", "default")
    assert made.from_address == sender.agent
    event = task_events.response_event(Task(made, NOW, NOW, answer=Answer(True, "ok", 0)), NOW)
    assert (event.from_agent, event.to_agent, event.request_id) == (WORKER, WORKER, "req-1")


def test_an_answer_is_read_by_the_other_node() -> None:
    """Without loss."""
    answer = Answer(False, "no", 3, {"a": 1})
    event = task_events.response_event(theirs(answer=answer), NOW)
    assert (event.from_agent, event.to_agent) == (WORKER, COORDINATOR)
    assert to_answer(event.result) == answer


def test_progress_names_the_request_and_keeps_its_content() -> None:
    """An agent cannot assign it to another task."""
    event = task_events.progress_event(theirs(), {"percent": 50, "request_id": "other"}, "m", NOW)
    assert (event.message_type, event.from_agent, event.to_agent) == ("progress", WORKER, COORDINATOR)
    assert task_events.referenced_request(event) == "req-1"
    assert task_events.progress_of(event) == {"percent": 50}


@pytest.mark.parametrize(
    ("payload", "named", "progress", "reason"),
    [
        ({"percent": 50, "status": "compiling"}, None, {"percent": 50, "status": "compiling"}, None),
        ({"request_id": 5, "reason": ""}, None, {"reason": ""}, None),
        ("half", None, {"message": "half"}, None),
        ({"request_id": "r", "task_id": "t", "reason": "x"}, "r", {"reason": "x"}, "x"),
    ],
)
def test_messages_that_name_no_task(payload: Any, named: str | None, progress: Any, reason: str | None) -> None:
    """As in the specification's example."""
    event = message(payload)
    assert task_events.referenced_request(event) == named
    assert task_events.progress_of(event) == progress
    assert task_events.reason_of(event) == reason


def test_a_refusal_is_sent_by_a_local_agent_or_the_node() -> None:
    """Peers accept nothing else."""
    error = TaskError(ErrorCode.AGENT_NOT_FOUND, "No.")
    kitchen = CisSettings("kitchen.local")
    event = task_events.refusal_event(request(), error, NOW, kitchen)
    assert (event.from_agent, event.to_agent) == (WORKER, COORDINATOR)
    assert event.result.metadata == {"error_code": "AGENT_NOT_FOUND"}
    event = task_events.refusal_event(request(), error, NOW, CisSettings("other.local"))
    assert str(event.from_agent) == "palaver@other.local"


EVENTS = st.builds(
    lambda prompt, metadata: task_events.request_event(
        replace(OURS, request=replace(OURS.request, prompt=prompt, context=prompt, metadata=metadata)), SETTINGS, NOW
    ),
    HOSTILE_TEXT,
    st.dictionaries(HOSTILE_TEXT, HOSTILE),
) | st.builds(lambda said: task_events.progress_event(theirs(), said, "m", NOW), st.dictionaries(HOSTILE_TEXT, HOSTILE))


@given(EVENTS)
def test_any_answer_can_be_sent(event: AnyEvent) -> None:
    """Values that an event cannot contain are replaced or left out."""
    for profile in PeerProfile:
        assert content.read(event.TYPE, content.render(event, profile)) == event
    encode(content.render(event, PeerProfile.MATRIX))
