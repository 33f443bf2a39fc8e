"""Delivers tasks to members of offices.

An Agent that accepts tasks receives the event `palaver:task`; its acknowledgement is the answer, and
`palaver:task_cancel` cancels the task. The protocol has no such events, so only Agents that have declared
that they accept tasks receive them.

For a Computer a task is a call of one of its tools: the task's metadata names the tool and its parameters. A
Computer does not read prompts.

Nothing is sent before the task service has stored that the task is running. So work that was lost with the
node is never repeated, and work that had not begun is done after the next start.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent
from bridge.agents.local.reporting import begin, report
from bridge.agents.work import WorkOutcome
from bridge.connectors.offices.calls.direct_call import DirectCall
from bridge.connectors.offices.calls.member_agents import LocalMember
from bridge.connectors.offices.protocol.errors import TOO_MANY
from bridge.connectors.offices.protocol.events import is_name
from bridge.connectors.offices.protocol.office import COMPUTER
from bridge.connectors.offices.protocol.relay import MAX_TIMEOUT
from bridge.connectors.offices.protocol.tools import Outcome, full_text
from bridge.connectors.offices.settings import NAME
from bridge.observability.report import Report
from bridge.tasks.answer import MAX_EXIT_CODE, Answer
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.ports import Delivered, DeliveryOutcome, NotInThisProcess, Rejected
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.service import TaskService
from bridge.tasks.task import Task
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost

if TYPE_CHECKING:
    from bridge.connectors.offices.server.server import SmcpServer


TOOL: Final = "tool"
PARAMS: Final = "params"

_FAILED: Final = 1
_EXAMPLE: Final = 'metadata like {"tool": "add", "params": {"a": 1, "b": 2}}'
_DISCONNECTED: Final = "The Computer has disconnected. It is not known whether the tool completed its work."


@dataclass(frozen=True, slots=True)
class ToolTask:
    """The tool and the parameters that a task for a Computer names in its metadata."""

    tool_name: str
    params: Mapping[str, Any]


def read_tool_task(computer: AgentAddress, metadata: Mapping[str, Any]) -> ToolTask | TaskError:
    """`params` may also be a string that holds a JSON object: not all requesters can send nested values."""
    tool_name, params = metadata.get(TOOL), metadata.get(PARAMS, {})
    if tool_name is None:
        return _wrong(
            TOOL, f"{computer} is a Computer and does not read prompts: call one of its tools with {_EXAMPLE}."
        )
    if not isinstance(tool_name, str) or not is_name(tool_name):
        return _wrong(TOOL, f"The name of a tool must be text: send {_EXAMPLE}.")
    if isinstance(params, str):
        try:
            params = orjson.loads(params)
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            return _wrong(PARAMS, f"params is not valid JSON: send {_EXAMPLE}.")
    if not isinstance(params, dict):
        return _wrong(PARAMS, f"params must be an object: send {_EXAMPLE}.")
    return ToolTask(tool_name, params)


def timeout_for(task: Task, now_ms: int) -> int:
    """The task's remaining seconds, at least 1: the end of the task cancels the call in any case."""
    return max(1, min(-(-(task.deadline - now_ms) // 1000), MAX_TIMEOUT))


def task_outcome(answer: Mapping[str, Any], call_id: str, *, is_gone: bool) -> WorkOutcome:
    """The task's outcome for a Computer's answer. `is_gone`: the Computer is no longer connected."""
    outcome, text = full_text(answer)
    metadata = {"call_id": call_id, "outcome": outcome.value}
    if answer.get("code") == TOO_MANY:
        return TaskError(ErrorCode.AGENT_BUSY, text, metadata)
    match outcome:
        case Outcome.DONE:
            return Answer(True, text, 0, metadata)
        case Outcome.NOT_FOUND if is_gone:
            return TaskError(ErrorCode.NODE_UNREACHABLE, _DISCONNECTED, {**metadata, "interrupted": True})
        case Outcome.TIMED_OUT:
            return TaskError(ErrorCode.TIMEOUT, text, metadata)
        case _:
            return Answer(False, text, _FAILED, metadata)


def _wrong(field: str, reason: str) -> TaskError:
    return TaskError(ErrorCode.INVALID_PAYLOAD, reason, {"field": f"metadata.{field}"})


TASK: Final = "palaver:task"
CANCEL: Final = "palaver:task_cancel"
CONCURRENT_TASKS: Final = 1
QUEUED_TASKS: Final = 100
"""Limits for an Agent, the same as for an attached agent."""
MAX_REASON_LENGTH: Final = 4_000

_NO_ANSWER: Final = (
    "The Agent acknowledged the task without an answer: it must be an object with success and output, or with error."
)
# An Agent may refuse with any of these codes, except that it does not exist.
_CODES: Final = frozenset(code.value for code in ErrorCode if code is not ErrorCode.AGENT_NOT_FOUND)


def task_content(task: Task, now_ms: int) -> dict[str, Any]:
    """`work_id` is unique on this node; requesters choose `task_id`, and two of them may choose the same."""
    request = task.request
    return {
        "task_id": request.task_id,
        "work_id": str(task.id),
        "from": str(request.from_address),
        "prompt": request.prompt,
        "context": request.context,
        "system_prompt": request.system_prompt,
        "model": request.model,
        "metadata": dict(request.metadata),
        "deadline_secs": max(0, task.deadline - now_ms) / 1000,
    }


def cancel_content(task: Task) -> dict[str, Any]:
    return {"task_id": task.request.task_id, "work_id": str(task.id)}


def read_answer(arguments: Sequence[Any]) -> WorkOutcome:
    """The outcome for an Agent's acknowledgement, which may have any form."""
    answer = arguments[0] if len(arguments) == 1 else None
    if not isinstance(answer, Mapping):
        return Answer(False, _NO_ANSWER, _FAILED)
    error = answer.get("error")
    if isinstance(error, str) and error:
        return Answer(False, error, _FAILED)
    if isinstance(error, Mapping):
        return _refusal(error)
    success, output = answer.get("success"), answer.get("output", "")
    if not isinstance(success, bool) or not isinstance(output, str):
        return Answer(False, _NO_ANSWER, _FAILED)
    metadata = answer.get("metadata")
    return Answer(
        success,
        output,
        _exit_code(answer.get("exit_code"), success),
        dict(metadata) if isinstance(metadata, dict) else {},
    )


def _refusal(error: Mapping[str, Any]) -> WorkOutcome:
    """A task error if the code is known; otherwise an unsuccessful answer."""
    code, reason = error.get("code"), error.get("reason", error.get("message"))
    shown = reason[:MAX_REASON_LENGTH] if isinstance(reason, str) and reason else _NO_ANSWER
    if isinstance(code, str) and code in _CODES:
        return TaskError(ErrorCode(code), shown)
    return Answer(False, shown, _FAILED)


def _exit_code(value: object, success: bool) -> int:
    if type(value) is int and abs(value) <= MAX_EXIT_CODE:
        return value
    return 0 if success else _FAILED


# -- outcomes without an answer of the Agent --


def not_declared(agent: AgentAddress) -> TaskError:
    """The Agent is connected but does not accept tasks."""
    reason = (
        f"{agent} is the Agent of an office and does not accept tasks: its connection has not declared"
        ' {"palaver": {"tasks": true}}.'
    )
    return TaskError(ErrorCode.INVALID_PAYLOAD, reason, {"reason": "tasks_not_declared"})


def agent_left() -> TaskError:
    reason = "The Agent left its office while working on the task. It is not known whether it completed the work."
    return TaskError(ErrorCode.NODE_UNREACHABLE, reason, {"interrupted": True})


def node_stopped() -> TaskError:
    reason = "The node stopped while the task was running. It is not known whether the work was completed."
    return TaskError(ErrorCode.NODE_UNREACHABLE, reason, {"interrupted": True})


CANCEL_WINDOW_MS: Final = 60_000
"""For this long after a task's end, another process is given the chance to cancel what still runs."""
END_TIMEOUT: Final = 5.0
"""Seconds to wait for a departed agent's tasks to be ended before the agent is unregistered."""
AGENT_LIMITS: Final = AgentSettings(CONCURRENT_TASKS, QUEUED_TASKS)
UNLIMITED: Final = AgentSettings(None, 0)
"""For a Computer, whose calls have their own limits, and for an Agent that does not accept tasks, whose tasks
are refused at once."""


MemberAt = Callable[[AgentAddress], LocalMember | None]
"""Returns the member that has an address now."""


@dataclass(eq=False, slots=True)
class _RunningTask:
    """`call` is set for a Computer. `outcome` is set by an Agent's acknowledgement, or by an event that makes
    that impossible."""

    task: Task
    member: LocalMember
    outcome: "asyncio.Future[WorkOutcome]"
    call: DirectCall | None = None
    work: "asyncio.Task[None] | None" = None
    is_begun: bool = False

    @property
    def address(self) -> AgentAddress:
        return self.task.request.to_address

    def settle(self, outcome: WorkOutcome) -> None:
        """Set the outcome, unless one is set: the first one counts."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class OfficeTasks:
    """Implements `Delivery`. Call `use_task_service` first; call `stop` while the task service is still open,
    and `members_changed` after each change of membership."""

    def __init__(self, server: "SmcpServer", member_at: MemberAt, *, now_ms: Callable[[], int], report: Report) -> None:
        self._server = server
        self._member_at = member_at
        self._now_ms = now_ms
        self._report = report
        self._service: TaskService | None = None
        self._running: dict[int, _RunningTask] = {}
        self._background = BackgroundTasks()

    def use_task_service(self, service: TaskService) -> None:
        self._service = service

    async def stop(self) -> None:
        """End the running tasks and report them as failed."""
        service, self._service = self._service, None
        running = list(self._running.values())
        works = [one.work for one in running if one.work is not None]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        for one in running:
            # A task that has not begun stays queued until the next start.
            if one.is_begun and service is not None:
                await self._cancel(one)
                try:
                    await service.fail(one.task.key, node_stopped(), by=one.address)
                except ConnectionLost:
                    # The task service finds the task after the next start and reports it as interrupted.
                    self._report(f"Failed to report that the task {one.task.key} was interrupted.", None)

    def settings(self, agent: Agent) -> AgentSettings | None:
        """None for an agent that is not a member of an office."""
        if agent.connector != NAME:
            return None
        member = self._member_at(agent.address)
        return AGENT_LIMITS if member is None or member.reads_tasks else UNLIMITED

    def members_changed(self) -> None:
        """End the tasks of Agents that have left: they will not acknowledge them."""
        for running in self._running.values():
            member = self._member_at(running.address)
            if running.call is None and (member is None or member.member != running.member.member):
                running.settle(agent_left())

    async def wait_until_ended(self, address: AgentAddress) -> None:
        """Wait until the running tasks of an agent that has left have been ended, for a limited time."""
        works = {
            running.work
            for running in self._running.values()
            if running.address == address and running.work is not None
        }
        if works:
            await asyncio.wait(works, timeout=END_TIMEOUT)

    # -- from the task service --

    async def deliver(self, task: Task) -> DeliveryOutcome:
        address = task.request.to_address
        member = self._member_at(address)
        if member is None or self._service is None:
            # It may be connected to another process of the node, or about to reconnect.
            return NotInThisProcess()
        if task.id in self._running:
            return Delivered()
        call: DirectCall | None = None
        if member.member.role == COMPUTER:
            read = read_tool_task(address, task.request.metadata)
            if isinstance(read, TaskError):
                return Rejected(read)
            call = self._direct_call(task, member, read)
        elif not member.reads_tasks:
            return Rejected(not_declared(address))
        running = _RunningTask(task, member, asyncio.get_running_loop().create_future(), call)
        self._running[task.id] = running
        running.work = self._background.spawn("task of an office", self._work(running, self._service))
        running.work.add_done_callback(lambda _: self._running.pop(task.id, None))
        return Delivered()

    async def cancel(self, task: Task) -> bool:
        running = self._running.get(task.id)
        if running is not None and running.work is not None:
            running.work.cancel()
            await asyncio.wait({running.work})
            await self._cancel(running)
            return True
        # It may run in another process of the node, which is asked to cancel it for a limited time.
        ended_ago = self._now_ms() - (task.finished_at or 0)
        return task.runner is None or self._service is None or ended_ago > CANCEL_WINDOW_MS

    # -- internals --

    def _direct_call(self, task: Task, member: LocalMember, tool_task: ToolTask) -> DirectCall:
        return DirectCall(
            call_id=f"task-{task.id}",
            office_id=member.member.office_id,
            computer=member.member.name,
            tool_name=tool_task.tool_name,
            params=tool_task.params,
            timeout=timeout_for(task, self._now_ms()),
            by=str(task.request.from_address),
        )

    async def _work(self, running: _RunningTask, service: TaskService) -> None:
        task = running.task
        try:
            if not await begin(service, task):
                return
            running.is_begun = True
            outcome = await (
                self._send_task(running) if running.call is None else self._call_tool(running, running.call)
            )
        except Exception as error:
            self._report(f"Unexpected error while working on the task {task.key}.", error)
            outcome = Answer(False, f"The task failed in the office: {type(error).__name__}.", 1)
        await report(service, task, outcome)

    async def _send_task(self, running: _RunningTask) -> WorkOutcome:
        # The Agent may have left while the task service stored the step.
        self.members_changed()
        if not running.outcome.done():
            payload = task_content(running.task, self._now_ms())
            await self._server.emit_with_ack(
                TASK, payload, running.member.member.sid, lambda *answer: running.settle(read_answer(answer))
            )
        # Cancelling this coroutine must not cancel the future: `_cancel` checks whether the Agent has
        # answered.
        return await asyncio.shield(running.outcome)

    async def _call_tool(self, running: _RunningTask, call: DirectCall) -> WorkOutcome:
        answer = await self._server.call(call)
        member = self._member_at(running.address)
        is_gone = member is None or member.member != running.member.member
        return task_outcome(answer, call.call_id, is_gone=is_gone)

    async def _cancel(self, running: _RunningTask) -> None:
        if not running.is_begun:
            return
        if running.call is not None:
            await self._server.cancel_call(running.call)
        elif not running.outcome.done():
            await self._server.emit(CANCEL, cancel_content(running.task), running.member.member.sid)
