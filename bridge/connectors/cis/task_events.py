"""Tasks as events of CIS agents, and the other way round.

The specification has a request and a response. That a requester no longer wants a task, and that an agent has
got somewhere, are messages: of the types `cancel` and `progress`, whose payload names the request.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.connectors.cis.examination import From
from bridge.connectors.cis.protocol import event_fields as timestamps
from bridge.connectors.cis.protocol.error_codes import result_of
from bridge.connectors.cis.protocol.events import Message, TaskPayload, TaskRequest, TaskResponse
from bridge.connectors.cis.protocol.json_values import sendable, sendable_members
from bridge.connectors.cis.protocol.request_ids import request_id
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
FROM: Final = "io.palaver.from"
"""In the metadata of a task that a node passes on: who asked for it."""
NOT_SENDABLE: Final = TaskError(ErrorCode.INVALID_PAYLOAD, "The id of the request is too long to be sent.")


@dataclass(frozen=True, slots=True)
class ReturnAddress:
    """Where a task that came as an event is answered: with the addresses "as they were given"."""

    node_id: str
    namespace: str
    from_agent: str
    to_agent: str

    def origin(self) -> Origin:
        reference = {
            "node": self.node_id,
            "namespace": self.namespace,
            "from": self.from_agent,
            "to": self.to_agent,
        }
        return Origin(NAME, reference)


def return_address(task: Task) -> ReturnAddress:
    reference = task.request.origin.reference
    return ReturnAddress(reference["node"], reference["namespace"], reference["from"], reference["to"])


# ---- from another node -------------------------------------------------------------------------------


def requested(event: TaskRequest, sender: From, node_id: str, namespace: str) -> Request:
    """What a peer asks for."""
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


def named_request(event: Message) -> str | None:
    """Which request a message is about; None if it does not say."""
    said = event.payload.get(REQUEST_ID) if isinstance(event.payload, dict) else None
    return said if isinstance(said, str) else None


def progress_of(event: Message) -> Mapping[str, Any]:
    """What an agent says of its work."""
    if not isinstance(event.payload, dict):
        return {"message": event.payload}
    return {name: value for name, value in event.payload.items() if name not in (REQUEST_ID, TASK_ID)}


def reason_of(event: Message) -> str | None:
    """Why a task is no longer wanted."""
    said = event.payload.get("reason") if isinstance(event.payload, dict) else None
    return said if isinstance(said, str) and said else None


# ---- to another node ---------------------------------------------------------------------------------


def request_event(task: Task, settings: CisSettings, now_ms: int) -> TaskRequest | TaskError:
    """It goes out in the name of its requester, if that is one of this node. What time is left is "counted
    from receipt" there."""
    request = task.request
    known_as = request_id(task.key, settings.node_id)
    if known_as is None:
        return NOT_SENDABLE
    metadata = sendable_members(request.metadata)
    if not settings.is_own(request.from_address):
        metadata[FROM] = str(request.from_address)
    return TaskRequest(
        request_id=known_as,
        from_agent=requester(task, settings),
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
        timestamp=timestamps.of(task.received_at),
    )


def cancel_event(task: Task, settings: CisSettings, now_ms: int) -> Message | TaskError:
    known_as = request_id(task.key, settings.node_id)
    if known_as is None:
        return NOT_SENDABLE
    reason = None if task.answer is None else sendable(task.answer.output)[:1000]
    return Message(
        message_id=f"cancel-{task.id}",
        from_agent=requester(task, settings),
        to_agent=task.request.to_address,
        message_type=CANCEL,
        payload={REQUEST_ID: known_as, TASK_ID: task.request.task_id, "reason": reason},
        timestamp=timestamps.of(now_ms),
    )


def requester(task: Task, settings: CisSettings) -> AgentAddress:
    """As whom this node asks another one."""
    asked = task.request.from_address
    return asked if settings.is_own(asked) else settings.node_address


def response_event(task: Task, now_ms: int) -> TaskResponse:
    """What a task of a peer came to."""
    assert task.answer is not None, "a task that is answered has an answer"
    back = return_address(task)
    return _response(task.key.request_id, back.to_agent, back.from_agent, task.answer, now_ms)


def refusal_event(event: TaskRequest, error: TaskError, now_ms: int, settings: CisSettings) -> TaskResponse:
    """To a request that has not become a task. What this node says it says for its own agents alone."""
    named = event.to_agent if settings.is_own(event.to_agent) else settings.node_address
    # The proxy of a published node finds its answer by the addresses that it gave.
    speaker = event.to_agent if event.from_agent == event.to_agent else named
    return _response(event.request_id, str(speaker), str(event.from_agent), failure(error), now_ms)


def progress_event(task: Task, content: Mapping[str, Any], message_id: str, now_ms: int) -> Message:
    back = return_address(task)
    named = {REQUEST_ID: task.key.request_id, TASK_ID: task.request.task_id}
    return Message.model_validate(
        {
            "message_id": message_id,
            "from_agent": back.to_agent,
            "to_agent": back.from_agent,
            "message_type": PROGRESS,
            "payload": {**sendable_members(content), **named},
            "timestamp": timestamps.of(now_ms),
        }
    )


def _response(request: str, from_agent: str, to_agent: str, answer: Answer, now_ms: int) -> TaskResponse:
    return TaskResponse.model_validate(
        {
            "request_id": request,
            "from_agent": from_agent,
            "to_agent": to_agent,
            "result": result_of(answer),
            "timestamp": timestamps.of(now_ms),
        }
    )
