"""Brings tasks to members of offices: to an Agent that reads them as an event, to a Computer as a call.

Nothing is sent before the desk has stored that the task is begun. So what was lost with the node is never
done a second time, and what had not been begun is.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from bridge.address import AgentAddress
from bridge.agent import Agent
from bridge.agent_queue import AgentSettings
from bridge.agent_work import WorkOutcome
from bridge.connectors.offices.direct_call import DirectCall
from bridge.connectors.offices.flat_error import Flat
from bridge.connectors.offices.member_agents import CONNECTOR, Seat
from bridge.connectors.offices.office import COMPUTER
from bridge.connectors.offices.task_event import (
    AT_ONCE,
    CANCEL,
    TASK,
    WAITING,
    agent_gone,
    cancel_content,
    node_stopped,
    not_declared,
    read_answer,
    task_content,
)
from bridge.connectors.offices.tool_task import ToolTask, outcome_of, read_tool_task, seconds_for
from bridge.service.agents.reporting import Desk, begin, report
from bridge.service.session import Report
from bridge.task import Task
from bridge.task_answer import Answer
from bridge.task_error import TaskError
from bridge.task_ports import Delivered, DeliveryOutcome, NotHere, Rejected
from storage.connecting import ConnectionLost

TOLD_FOR_MS: Final = 60_000
"""After the end of a task nobody is looked for any more who may still do it."""
PARTING: Final = 5.0
"""Seconds for which the tasks of who has gone are ended, before it is told that it has."""
OF_AGENT: Final = AgentSettings(AT_ONCE, WAITING)
AS_THEY_COME: Final = AgentSettings(None, 0)
"""Of a Computer, whose calls have limits of their own; and of an Agent that reads no tasks, for which each is
refused at once."""


Answered = Callable[..., None]


class Server(Protocol):
    """What of the server this needs."""

    async def ask(self, event: str, said: Any, sid: str, answered: Answered) -> None: ...

    async def tell(self, event: str, said: Any, sid: str) -> None: ...

    async def call(self, call: DirectCall) -> Flat: ...

    async def take_back(self, call: DirectCall) -> bool: ...


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
    """A `Delivery`. First comes `work_for`; in the end `stop`, while there is still a desk. `moved` says that
    somebody has come or gone."""

    def __init__(self, server: Server, seat: SeatOf, *, now_ms: Callable[[], int], report: Report) -> None:
        self._server = server
        self._seat = seat
        self._now_ms = now_ms
        self._report = report
        self._desk: Desk | None = None
        self._running: dict[int, _Running] = {}

    def work_for(self, desk: Desk) -> None:
        self._desk = desk

    async def stop(self) -> None:
        """End what was begun, and say so."""
        desk, self._desk = self._desk, None
        running = list(self._running.values())
        works = [one.work for one in running if one.work is not None]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        for one in running:
            # What had not been begun is begun after the next start.
            if one.is_begun and desk is not None:
                await self._take_back(one)
                try:
                    await desk.fail(one.task.key, node_stopped(), by=one.address)
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
        if seat is None or self._desk is None:
            # It may be in another process of the node, or may be about to come back.
            return NotHere()
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
        running.work = asyncio.create_task(self._work(running, self._desk))
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
        return task.runner is None or self._desk is None or ended_ago > TOLD_FOR_MS

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

    async def _work(self, running: _Running, desk: Desk) -> None:
        task = running.task
        try:
            if not await begin(desk, task):
                return
            running.is_begun = True
            outcome = await (
                self._ask(running) if running.call is None else self._carry_out(running, running.call)
            )
        except Exception as error:
            self._report(f"The task {task.key} failed in a way that nobody foresaw.", error)
            outcome = Answer(False, f"The office could not be asked: {type(error).__name__}.", 1)
        await report(desk, task, outcome)

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
