"""Converts tasks to CIS events and back.

The specification has a request and a response. Cancellation and progress are messages of the types `cancel`
and `progress`, whose payload names the request.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.connectors.cis.examination import AgentSender
from bridge.connectors.cis.protocol import event_fields
from bridge.connectors.cis.protocol.error_codes import to_result
from bridge.connectors.cis.protocol.events import Message, TaskPayload, TaskRequest, TaskResponse
from bridge.connectors.cis.protocol.json_values import sendable, sendable_members
from bridge.connectors.cis.protocol.request_ids import outgoing_request_id
from bridge.connectors.cis.settings import NAME, CisSettings
from bridge.tasks.answer import Answer, failure
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.request import Origin, TaskKey
from bridge.tasks.request import TaskRequest as Request
from bridge.tasks.task import Task

CANCEL: Final = "cancel"
PROGRESS: Final = "progress"
REQUEST_ID: Final = "request_id"
TASK_ID: Final = "task_id"
REQUESTER: Final = "io.palaver.from"
"""The metadata key of a forwarded task for the address of its requester."""
NOT_SENDABLE: Final = TaskError(ErrorCode.INVALID_PAYLOAD, "The id of the request is too long to be sent.")


@dataclass(frozen=True, slots=True)
class ReturnAddress:
    """Where a task that arrived as an event is answered: with the addresses "as they were given"."""

    node_id: str
    namespace: str
    from_agent: str
    to_agent: str

    def origin(self) -> Origin:
        reference = {"node": self.node_id, "namespace": self.namespace, "from": self.from_agent, "to": self.to_agent}
        return Origin(NAME, reference)


def return_address(task: Task) -> ReturnAddress:
    reference = task.request.origin.reference
    return ReturnAddress(reference["node"], reference["namespace"], reference["from"], reference["to"])


# ---- from another node -------------------------------------------------------------------------------


def to_task_request(event: TaskRequest, sender: AgentSender, node_id: str, namespace: str) -> Request:
    """Return the task that a peer requests with an event."""
    back = ReturnAddress(node_id, namespace, str(event.from_agent), str(event.to_agent))
    task = event.task
    return Request(
        key=TaskKey(node_id, event.request_id),
        task_id=task.task_id,
        from_address=sender.agent,
        to_address=event.to_agent,
        prompt=task.prompt,
        origin=back.origin(),
        context=task.context,
        system_prompt=task.system_prompt,
        model=task.model,
        metadata=task.metadata,
        timeout_ms=None if event.timeout_secs is None else event.timeout_secs * 1000,
    )


def referenced_request(event: Message) -> str | None:
    """Return the id of the request that a message names; None if it names none."""
    request = event.payload.get(REQUEST_ID) if isinstance(event.payload, dict) else None
    return request if isinstance(request, str) else None


def progress_of(event: Message) -> Mapping[str, Any]:
    """Return the content of a progress message, without the ids of the request and the task."""
    if not isinstance(event.payload, dict):
        return {"message": event.payload}
    return {name: value for name, value in event.payload.items() if name not in (REQUEST_ID, TASK_ID)}


def reason_of(event: Message) -> str | None:
    """Return the reason that a cancel message gives."""
    reason = event.payload.get("reason") if isinstance(event.payload, dict) else None
    return reason if isinstance(reason, str) and reason else None


# ---- to another node ---------------------------------------------------------------------------------


def request_event(task: Task, settings: CisSettings, now_ms: int) -> TaskRequest | TaskError:
    """Return the event that requests the task from another node. `timeout_secs` is the remaining time,
    because it is "counted from receipt" there."""
    request = task.request
    outgoing_id = outgoing_request_id(task.key, settings.node_id)
    if outgoing_id is None:
        return NOT_SENDABLE
    metadata = sendable_members(request.metadata)
    if not settings.is_own(request.from_address):
        metadata[REQUESTER] = str(request.from_address)
    return TaskRequest(
        request_id=outgoing_id,
        from_agent=sender_of(task, settings),
        to_agent=request.to_address,
        task=TaskPayload(
            task_id=request.task_id,
            prompt=sendable(request.prompt),
            context=sendable(request.context),
            system_prompt=None if request.system_prompt is None else sendable(request.system_prompt),
            model=None if request.model is None else sendable(request.model),
            metadata=metadata,
        ),
        timeout_secs=max(1, -(-(task.deadline - now_ms) // 1000)),
        timestamp=event_fields.from_milliseconds(task.received_at),
    )


def cancel_event(task: Task, settings: CisSettings, now_ms: int) -> Message | TaskError:
    outgoing_id = outgoing_request_id(task.key, settings.node_id)
    if outgoing_id is None:
        return NOT_SENDABLE
    reason = None if task.answer is None else sendable(task.answer.output)[:1000]
    return Message(
        message_id=f"cancel-{task.id}",
        from_agent=sender_of(task, settings),
        to_agent=task.request.to_address,
        message_type=CANCEL,
        payload={REQUEST_ID: outgoing_id, TASK_ID: task.request.task_id, "reason": reason},
        timestamp=event_fields.from_milliseconds(now_ms),
    )


def sender_of(task: Task, settings: CisSettings) -> AgentAddress:
    """Return the agent that sends a task's events to another node: its requester if that is a local agent,
    else the node itself."""
    requester = task.request.from_address
    return requester if settings.is_own(requester) else settings.node_address


def response_event(task: Task, now_ms: int) -> TaskResponse:
    """Return the event that answers a peer's task."""
    assert task.answer is not None, "only a finished task is answered"
    back = return_address(task)
    return _response(task.key.request_id, back.to_agent, back.from_agent, task.answer, now_ms)


def refusal_event(event: TaskRequest, error: TaskError, now_ms: int, settings: CisSettings) -> TaskResponse:
    """Return the answer to a request that has not become a task. It comes from the target if that is a local
    agent, else from the node itself."""
    local = event.to_agent if settings.is_own(event.to_agent) else settings.node_address
    # The proxy of a published node finds its answer by the addresses that it gave.
    sender = event.to_agent if event.from_agent == event.to_agent else local
    return _response(event.request_id, str(sender), str(event.from_agent), failure(error), now_ms)


def progress_event(task: Task, content: Mapping[str, Any], message_id: str, now_ms: int) -> Message:
    back = return_address(task)
    ids = {REQUEST_ID: task.key.request_id, TASK_ID: task.request.task_id}
    return Message.model_validate(
        {
            "message_id": message_id,
            "from_agent": back.to_agent,
            "to_agent": back.from_agent,
            "message_type": PROGRESS,
            "payload": {**sendable_members(content), **ids},
            "timestamp": event_fields.from_milliseconds(now_ms),
        }
    )


def _response(request: str, from_agent: str, to_agent: str, answer: Answer, now_ms: int) -> TaskResponse:
    return TaskResponse.model_validate(
        {
            "request_id": request,
            "from_agent": from_agent,
            "to_agent": to_agent,
            "result": to_result(answer),
            "timestamp": event_fields.from_milliseconds(now_ms),
        }
    )
