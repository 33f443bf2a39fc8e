"""Each operation of the interface, however it was called."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.agents.attached import messages
from bridge.agents.attached.codec import read
from bridge.agents.attached.messages import OPERATIONS, Message, Operation, WorkRef
from bridge.agents.attached.services import AgentServices
from bridge.agents.attached.session import AttachedSession, Program
from bridge.agents.attached.tokens import Holder
from federation.matrix.errors import MatrixError, limit_exceeded
from storage.connect import ConnectionLost

LATER_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Asked:
    """`said` is a message of the type that the operation takes."""

    services: AgentServices
    holder: Holder
    said: Any
    work_id: str = ""

    @property
    def agent_id(self) -> str:
        return self.holder.agent_id

    async def session(self) -> AttachedSession:
        """That speaks; which is a sign of life."""
        session = self.services.agents.session(self.agent_id, self.said.session)
        await self.services.work.alive(session)
        return session


async def do(
    services: AgentServices,
    holder: Holder,
    operation: Operation,
    body: Mapping[str, Any],
    work_id: str = "",
) -> Message:
    """Raises `MatrixError`, and nothing else that is anybody's fault."""
    services.admit(holder.agent_id)
    said = None if operation.takes is None else read(operation.takes, body, is_text=operation.in_query)
    try:
        return await _DOING[operation.name](Asked(services, holder, said, work_id))
    except ConnectionLost as error:
        raise limit_exceeded("The node cannot say now: ask again.", 503, LATER_MS) from error


async def _register(asked: Asked) -> Message:
    said: messages.Register = asked.said
    program = Program(
        session=said.session,
        token_id=asked.holder.token_id,
        runtime=said.runtime,
        capabilities=tuple(said.capabilities),
        parallel=said.parallel,
        queue=said.queue,
    )
    agents = asked.services.agents
    kept = await agents.register(asked.agent_id, program, {one.work_id: one.attempt for one in said.working})
    return messages.Registered(
        address=str(_address(asked)),
        heartbeat_seconds=agents.limits.heartbeat,
        silence_seconds=agents.limits.silence,
        begin_seconds=agents.limits.begin,
        working=[WorkRef(work_id=work_id, attempt=attempt) for work_id, attempt in kept.items()],
    )


async def _unregister(asked: Asked) -> Message:
    said: messages.Unregister = asked.said
    await asked.services.agents.unregister(asked.agent_id, said.session, said.reason)
    return messages.Done()


async def _show(asked: Asked) -> Message:
    agent = asked.services.routes.agent(_address(asked))
    if agent is None:
        raise MatrixError("M_NOT_FOUND", "The agent has never been registered.", 404)
    return messages.AgentView(
        address=str(agent.address),
        runtime=agent.runtime,
        capabilities=list(agent.capabilities),
        status=agent.status.value,
        current_task=agent.current_task,
        is_attached=asked.services.agents.is_attached(asked.agent_id),
    )


async def _heartbeat(asked: Asked) -> Message:
    said: messages.Heartbeat = asked.said
    session = asked.services.agents.session(asked.agent_id, said.session)
    await asked.services.work.alive(session, said.working)
    return messages.Alive(cancelled=session.attachment.unwanted(said.working or []))


async def _set_status(asked: Asked) -> Message:
    said: messages.SetStatus = asked.said
    asked.services.agents.set_status(await asked.session(), has_failed=said.status == "error")
    return messages.Done()


async def _take(asked: Asked) -> Message:
    said: messages.Take = asked.said
    task, cancelled = await asked.services.work.take(
        asked.agent_id, said.session, said.wait_seconds, said.working
    )
    given = None if task is None else messages.Task.of(task, asked.services.now_ms())
    return messages.Taken(task=given, cancelled=cancelled)


async def _begin(asked: Asked) -> Message:
    said: messages.Begin = asked.said
    work = asked.services.work
    return messages.Said(wanted=await work.begin(await asked.session(), asked.work_id, said.attempt))


async def _progress(asked: Asked) -> Message:
    said: messages.Progress = asked.said
    wanted = await asked.services.work.progress(await asked.session(), asked.work_id, said.attempt, said.text)
    return messages.Said(wanted=wanted)


async def _finish(asked: Asked) -> Message:
    said: messages.Result | messages.Failure = asked.said
    wanted = await asked.services.work.finish(
        await asked.session(), asked.work_id, said.attempt, said.outcome()
    )
    return messages.Said(wanted=wanted)


def _address(asked: Asked) -> AgentAddress:
    return AgentAddress(asked.agent_id, asked.services.routes.node_id)


_DOING: Final[Mapping[str, Callable[[Asked], Awaitable[Message]]]] = {
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
assert _DOING.keys() == {operation.name for operation in OPERATIONS}, "each of them is done"
