"""The operations of the API for attached agents, over HTTP and WebSocket alike."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.agents.attached import messages
from bridge.agents.attached.codec import parse_message
from bridge.agents.attached.messages import OPERATIONS, Message, Operation, WorkRef
from bridge.agents.attached.services import AgentServices
from bridge.agents.attached.session import AttachedSession, Program
from bridge.agents.attached.tokens import TokenOwner
from federation.matrix.errors import MatrixError, limit_exceeded
from storage.connect import ConnectionLost

RETRY_AFTER_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class OperationCall:
    """One call. `message` is of the type that the operation takes."""

    services: AgentServices
    owner: TokenOwner
    message: Any
    work_id: str = ""

    @property
    def agent_id(self) -> str:
        return self.owner.agent_id

    async def session(self) -> AttachedSession:
        """The session that makes the call. The call counts as a heartbeat."""
        session = self.services.agents.session(self.agent_id, self.message.session)
        await self.services.work.alive(session)
        return session


async def call_operation(
    services: AgentServices, owner: TokenOwner, operation: Operation, body: Mapping[str, Any], work_id: str = ""
) -> Message:
    """Call an operation. Every expected failure is raised as `MatrixError`."""
    services.admit(owner.agent_id)
    message = (
        None
        if operation.request_type is None
        else parse_message(operation.request_type, body, is_text=operation.in_query)
    )
    try:
        return await _HANDLERS[operation.name](OperationCall(services, owner, message, work_id))
    except ConnectionLost as error:
        raise limit_exceeded("The node cannot reach its database: try again.", 503, RETRY_AFTER_MS) from error


async def _register(call: OperationCall) -> Message:
    message: messages.Register = call.message
    program = Program(
        session=message.session,
        token_id=call.owner.token_id,
        runtime=message.runtime,
        capabilities=tuple(message.capabilities),
        parallel=message.parallel,
        queue=message.queue,
    )
    agents = call.services.agents
    wanted = await agents.register(call.agent_id, program, {one.work_id: one.attempt for one in message.working})
    return messages.RegisterResponse(
        address=str(_address(call)),
        heartbeat_seconds=agents.limits.heartbeat,
        silence_seconds=agents.limits.timeout,
        begin_seconds=agents.limits.begin_timeout,
        working=[WorkRef(work_id=work_id, attempt=attempt) for work_id, attempt in wanted.items()],
    )


async def _unregister(call: OperationCall) -> Message:
    message: messages.Unregister = call.message
    await call.services.agents.unregister(call.agent_id, message.session, message.reason)
    return messages.EmptyResponse()


async def _show(call: OperationCall) -> Message:
    agent = call.services.routes.agent(_address(call))
    if agent is None:
        raise MatrixError("M_NOT_FOUND", "The agent has never been registered.", 404)
    return messages.AgentView(
        address=str(agent.address),
        runtime=agent.runtime,
        capabilities=list(agent.capabilities),
        status=agent.status.value,
        current_task=agent.current_task,
        is_attached=call.services.agents.is_attached(call.agent_id),
    )


async def _heartbeat(call: OperationCall) -> Message:
    message: messages.Heartbeat = call.message
    session = call.services.agents.session(call.agent_id, message.session)
    await call.services.work.alive(session, message.working)
    return messages.HeartbeatResponse(cancelled=session.attachment.cancelled_of(message.working or []))


async def _set_status(call: OperationCall) -> Message:
    message: messages.SetStatus = call.message
    call.services.agents.set_status(await call.session(), has_failed=message.status == "error")
    return messages.EmptyResponse()


async def _take(call: OperationCall) -> Message:
    message: messages.Take = call.message
    task, cancelled = await call.services.work.take(
        call.agent_id, message.session, message.wait_seconds, message.working
    )
    offered = None if task is None else messages.Task.of(task, call.services.now_ms())
    return messages.TakeResponse(task=offered, cancelled=cancelled)


async def _begin(call: OperationCall) -> Message:
    message: messages.Begin = call.message
    work = call.services.work
    return messages.TaskCallResponse(wanted=await work.begin(await call.session(), call.work_id, message.attempt))


async def _progress(call: OperationCall) -> Message:
    message: messages.Progress = call.message
    wanted = await call.services.work.progress(await call.session(), call.work_id, message.attempt, message.text)
    return messages.TaskCallResponse(wanted=wanted)


async def _finish(call: OperationCall) -> Message:
    message: messages.Result | messages.Failure = call.message
    wanted = await call.services.work.finish(await call.session(), call.work_id, message.attempt, message.outcome())
    return messages.TaskCallResponse(wanted=wanted)


def _address(call: OperationCall) -> AgentAddress:
    return AgentAddress(call.agent_id, call.services.routes.node_id)


_HANDLERS: Final[Mapping[str, Callable[[OperationCall], Awaitable[Message]]]] = {
    "register": _register,
    "unregister": _unregister,
    "show": _show,
    "heartbeat": _heartbeat,
    "set_status": _set_status,
    "take": _take,
    "begin": _begin,
    "progress": _progress,
    "finish": _finish,
    "fail": _finish,
}
assert _HANDLERS.keys() == {operation.name for operation in OPERATIONS}, "every operation has a handler"
