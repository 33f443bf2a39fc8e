"""A task for a Computer is a call of one of its tools: its metadata says which one, and with what; words
alone no Computer reads.

Tasks as an Agent of an office reads them: `palaver:task`, whose acknowledgement is the answer, and
`palaver:task_cancel` for one that is not wanted any more.

The protocol has no such events; so only whoever has declared that it reads tasks is sent one.

Brings tasks to members of offices: to an Agent that reads them as an event, to a Computer as a call.

Nothing is sent before the desk has stored that the task is begun. So what was lost with the node is never
done a second time, and what had not been begun is.
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
from bridge.connectors.offices.calls.member_agents import CONNECTOR, Seat
from bridge.connectors.offices.protocol.errors import TOO_MANY
from bridge.connectors.offices.protocol.events import is_name
from bridge.connectors.offices.protocol.office import COMPUTER
from bridge.connectors.offices.protocol.relay import LONGEST_CALL
from bridge.connectors.offices.protocol.tools import Outcome, whole_text
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
_LIKE_THIS: Final = 'metadata like {"tool": "add", "params": {"a": 1, "b": 2}}'
_GONE: Final = "The Computer has gone. Whether the tool has done its work is not known."


@dataclass(frozen=True, slots=True)
class ToolTask:
    tool_name: str
    params: Mapping[str, Any]


def read_tool_task(computer: AgentAddress, metadata: Mapping[str, Any]) -> ToolTask | TaskError:
    """`params` may also be the text of an object of JSON: not everybody can send another value than text."""
    tool_name, params = metadata.get(TOOL), metadata.get(PARAMS, {})
    if tool_name is None:
        return _wrong(
            TOOL, f"{computer} is a Computer, and reads no words: its tools are called with {_LIKE_THIS}."
        )
    if not isinstance(tool_name, str) or not is_name(tool_name):
        return _wrong(TOOL, f"The name of a tool is text: send {_LIKE_THIS}.")
    if isinstance(params, str):
        try:
            params = orjson.loads(params)
        except (orjson.JSONDecodeError, UnicodeEncodeError):
            return _wrong(PARAMS, f"params is no JSON: send {_LIKE_THIS}.")
    if not isinstance(params, dict):
        return _wrong(PARAMS, f"params is an object: send {_LIKE_THIS}.")
    return ToolTask(tool_name, params)


def seconds_for(task: Task, now_ms: int) -> int:
    """A call has as long as its task, and no less than the shortest: what ends the task ends the call,
    too."""
    return max(1, min(-(-(task.deadline - now_ms) // 1000), LONGEST_CALL))


def outcome_of(answer: Mapping[str, Any], call_id: str, *, is_gone: bool) -> WorkOutcome:
    """What the call came to. `is_gone`: the Computer that was called is not there any more."""
    outcome, text = whole_text(answer)
    metadata = {"call_id": call_id, "outcome": outcome.value}
    if answer.get("code") == TOO_MANY:
        return TaskError(ErrorCode.AGENT_BUSY, text, metadata)
    match outcome:
        case Outcome.DONE:
            return Answer(True, text, 0, metadata)
        case Outcome.NOT_FOUND if is_gone:
            return TaskError(ErrorCode.NODE_UNREACHABLE, _GONE, {**metadata, "interrupted": True})
        case Outcome.TIMED_OUT:
            return TaskError(ErrorCode.TIMEOUT, text, metadata)
        case _:
            return Answer(False, text, _FAILED, metadata)


def _wrong(field: str, reason: str) -> TaskError:
    return TaskError(ErrorCode.INVALID_PAYLOAD, reason, {"field": f"metadata.{field}"})


TASK: Final = "palaver:task"
CANCEL: Final = "palaver:task_cancel"
AT_ONCE: Final = 1
WAITING: Final = 100
"""Tasks that an Agent works on, and that wait for it: as many as for any program that attaches itself."""
LONGEST_REASON: Final = 4_000

_NO_ANSWER: Final = (
    "The Agent has acknowledged the task without an answer: that is an object with success and output, or"
    " with error."
)
# An Agent may say with which of them it refuses; that it is not there it cannot say.
_CODES: Final = frozenset(code.value for code in ErrorCode if code is not ErrorCode.AGENT_NOT_FOUND)


def task_content(task: Task, now_ms: int) -> dict[str, Any]:
    """`work_id` is the node's own name for it: requesters choose `task_id`, and two may choose the same."""
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
    """Of the acknowledgement, which may be anything."""
    said = arguments[0] if len(arguments) == 1 else None
    if not isinstance(said, Mapping):
        return Answer(False, _NO_ANSWER, _FAILED)
    error = said.get("error")
    if isinstance(error, str) and error:
        return Answer(False, error, _FAILED)
    if isinstance(error, Mapping):
        return _refusal(error)
    success, output = said.get("success"), said.get("output", "")
    if not isinstance(success, bool) or not isinstance(output, str):
        return Answer(False, _NO_ANSWER, _FAILED)
    metadata = said.get("metadata")
    return Answer(
        success,
        output,
        _exit_code(said.get("exit_code"), success),
        dict(metadata) if isinstance(metadata, dict) else {},
    )


def _refusal(error: Mapping[str, Any]) -> WorkOutcome:
    """With one of the codes, or in other words."""
    code, reason = error.get("code"), error.get("reason", error.get("message"))
    shown = reason[:LONGEST_REASON] if isinstance(reason, str) and reason else _NO_ANSWER
    if isinstance(code, str) and code in _CODES:
        return TaskError(ErrorCode(code), shown)
    return Answer(False, shown, _FAILED)


def _exit_code(said: object, success: bool) -> int:
    if type(said) is int and abs(said) <= MAX_EXIT_CODE:
        return said
    return 0 if success else _FAILED


# -- why there is no answer of the Agent's --


def not_declared(agent: AgentAddress) -> TaskError:
    """The Agent is there, and nothing is wrong with the task but that it is one."""
    reason = (
        f"{agent} is the Agent of an office, and does not read tasks: its connection has not declared that it"
        " does."
    )
    return TaskError(ErrorCode.INVALID_PAYLOAD, reason, {"reason": "tasks_not_declared"})


def agent_gone() -> TaskError:
    reason = "The Agent has left its office while it worked on it. Whether the work was done is not known."
    return TaskError(ErrorCode.NODE_UNREACHABLE, reason, {"interrupted": True})


def node_stopped() -> TaskError:
    reason = "The node was stopped while it was worked on. Whether the work was done is not known."
    return TaskError(ErrorCode.NODE_UNREACHABLE, reason, {"interrupted": True})


TOLD_FOR_MS: Final = 60_000
"""After the end of a task nobody is looked for any more who may still do it."""
PARTING: Final = 5.0
"""Seconds for which the tasks of who has gone are ended, before it is told that it has."""
OF_AGENT: Final = AgentSettings(AT_ONCE, WAITING)
AS_THEY_COME: Final = AgentSettings(None, 0)
"""Of a Computer, whose calls have limits of their own; and of an Agent that reads no tasks, for which each is
refused at once."""


Answered = Callable[..., None]


SeatOf = Callable[[AgentAddress], Seat | None]
"""Who is there now."""


@dataclass(eq=False, slots=True)
class _Running:
    """`call` is there for one that is a call. `outcome` is settled by the acknowledgement, or by whatever
    makes that one impossible."""

    task: Task
    seat: Seat
    outcome: "asyncio.Future[WorkOutcome]"
    call: DirectCall | None = None
    work: "asyncio.Task[None] | None" = None
    is_begun: bool = False

    @property
    def address(self) -> AgentAddress:
        return self.task.request.to_address

    def settle(self, outcome: WorkOutcome) -> None:
        """The first to say how it ended has."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)


class OfficeTasks:
    """A `Delivery`. Call `use_task_service` first, `stop` while the task service runs. `moved` says that
    somebody has come or gone."""

    def __init__(
        self, server: "SmcpServer", seat: SeatOf, *, now_ms: Callable[[], int], report: Report
    ) -> None:
        self._server = server
        self._seat = seat
        self._now_ms = now_ms
        self._report = report
        self._tasks: TaskService | None = None
        self._running: dict[int, _Running] = {}
        self._background = BackgroundTasks()

    def use_task_service(self, tasks: TaskService) -> None:
        self._tasks = tasks

    async def stop(self) -> None:
        """End what was begun, and say so."""
        tasks, self._tasks = self._tasks, None
        running = list(self._running.values())
        works = [one.work for one in running if one.work is not None]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        for one in running:
            # What had not been begun is begun after the next start.
            if one.is_begun and tasks is not None:
                await self._take_back(one)
                try:
                    await tasks.fail(one.task.key, node_stopped(), by=one.address)
                except ConnectionLost:
                    # After the next start the desk finds it, and says much the same.
                    self._report(f"That the task {one.task.key} was interrupted could not be said.", None)

    def settings(self, agent: Agent) -> AgentSettings | None:
        """None for an agent that is no member of an office."""
        if agent.connector != CONNECTOR:
            return None
        seat = self._seat(agent.address)
        return OF_AGENT if seat is None or seat.reads_tasks else AS_THEY_COME

    def moved(self) -> None:
        """Who is not there any more does not answer."""
        for running in self._running.values():
            seat = self._seat(running.address)
            if running.call is None and (seat is None or seat.member != running.seat.member):
                running.settle(agent_gone())

    async def parting(self, address: AgentAddress) -> None:
        """Returns when what was begun by an agent that has gone has been ended; or after a while."""
        works = {
            running.work
            for running in self._running.values()
            if running.address == address and running.work is not None
        }
        if works:
            await asyncio.wait(works, timeout=PARTING)

    # -- what the desk says --

    async def deliver(self, task: Task) -> DeliveryOutcome:
        address = task.request.to_address
        seat = self._seat(address)
        if seat is None or self._tasks is None:
            # It may be in another process of the node, or may be about to come back.
            return NotInThisProcess()
        if task.id in self._running:
            return Delivered()
        call: DirectCall | None = None
        if seat.member.role == COMPUTER:
            read = read_tool_task(address, task.request.metadata)
            if isinstance(read, TaskError):
                return Rejected(read)
            call = self._call(task, seat, read)
        elif not seat.reads_tasks:
            return Rejected(not_declared(address))
        running = _Running(task, seat, asyncio.get_running_loop().create_future(), call)
        self._running[task.id] = running
        running.work = self._background.spawn("task of an office", self._work(running, self._tasks))
        running.work.add_done_callback(lambda _: self._running.pop(task.id, None))
        return Delivered()

    async def cancel(self, task: Task) -> bool:
        running = self._running.get(task.id)
        if running is not None and running.work is not None:
            running.work.cancel()
            await asyncio.wait({running.work})
            await self._take_back(running)
            return True
        # It may be in another process of the node, which is told then; for a while.
        ended_ago = self._now_ms() - (task.finished_at or 0)
        return task.runner is None or self._tasks is None or ended_ago > TOLD_FOR_MS

    # -- inside --

    def _call(self, task: Task, seat: Seat, said: ToolTask) -> DirectCall:
        return DirectCall(
            call_id=f"task-{task.id}",
            office_id=seat.member.office_id,
            computer=seat.member.name,
            tool_name=said.tool_name,
            params=said.params,
            timeout=seconds_for(task, self._now_ms()),
            by=str(task.request.from_address),
        )

    async def _work(self, running: _Running, tasks: TaskService) -> None:
        task = running.task
        try:
            if not await begin(tasks, task):
                return
            running.is_begun = True
            outcome = await (
                self._ask(running) if running.call is None else self._carry_out(running, running.call)
            )
        except Exception as error:
            self._report(f"The task {task.key} failed in a way that nobody foresaw.", error)
            outcome = Answer(False, f"The office could not be asked: {type(error).__name__}.", 1)
        await report(tasks, task, outcome)

    async def _ask(self, running: _Running) -> WorkOutcome:
        # It may have gone while the desk was asked.
        self.moved()
        if not running.outcome.done():
            said = task_content(running.task, self._now_ms())
            await self._server.ask(
                TASK, said, running.seat.member.sid, lambda *answer: running.settle(read_answer(answer))
            )
        # Whoever takes the task back has the Agent told so, as long as it has not answered.
        return await asyncio.shield(running.outcome)

    async def _carry_out(self, running: _Running, call: DirectCall) -> WorkOutcome:
        answer = await self._server.call(call)
        seat = self._seat(running.address)
        is_gone = seat is None or seat.member != running.seat.member
        return outcome_of(answer, call.call_id, is_gone=is_gone)

    async def _take_back(self, running: _Running) -> None:
        if not running.is_begun:
            return
        if running.call is not None:
            await self._server.take_back(running.call)
        elif not running.outcome.done():
            await self._server.tell(CANCEL, cancel_content(running.task), running.seat.member.sid)
