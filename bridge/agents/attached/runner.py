"""Keeps an agent attached to a node, and runs its command for each task.

While the node is unavailable, begun tasks continue, and are answered later. The first request to stop lets
begun tasks finish, the second one ends them.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from bridge.agents.attached.messages import (
    EmptyResponse,
    HeartbeatResponse,
    Push,
    RegisterResponse,
    Task,
    TaskCallResponse,
)
from bridge.agents.attached.runner_connection import (
    AgentConnection,
    AgentEndpoint,
    CallRefused,
    ConnectionClosed,
    connect,
)
from bridge.agents.local.health import HealthMonitor
from bridge.agents.local.process import CommandSettings, run_task
from bridge.agents.work import TaskAssignment, WorkOutcome
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from storage.concurrency import BackgroundTasks
from storage.errors import LocalError

STOP_TIMEOUT: Final = 30.0
"""Seconds to wait at a stop for commands to end."""
MIN_RETRY_DELAY: Final = 0.5
MAX_RETRY_DELAY: Final = 30.0
SESSION_BYTES: Final = 12

ReportLine = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class AgentDescription:
    """The data with which the program registers."""

    runtime: str
    capabilities: tuple[str, ...]
    parallel: int = 1
    queue: int = 100


@dataclass(slots=True)
class _ActiveTask:
    task: TaskAssignment
    work: "asyncio.Task[None] | None" = None
    is_begun: bool = False
    outcome: WorkOutcome | None = None
    """The outcome, until the node has stored it."""


class AgentRunner:
    """Runs one agent. `report` is called with status messages for people."""

    def __init__(
        self,
        endpoint: AgentEndpoint,
        description: AgentDescription,
        settings: CommandSettings,
        *,
        now_ms: Callable[[], int],
        report: ReportLine = lambda sentence: None,
    ) -> None:
        self._endpoint = endpoint
        self._description = description
        self._settings = settings
        self._now_ms = now_ms
        self._report = report
        self._session = secrets.token_hex(SESSION_BYTES)
        self._health = HealthMonitor(settings, failed=self._failed, recovered=self._recovered)
        self._active: dict[str, _ActiveTask] = {}
        self._connection: AgentConnection | None = None
        self._connected = asyncio.Event()
        self._is_replaced = False
        self._is_stopping = False
        self._is_aborting = False
        self._idle = asyncio.Event()
        self._background = BackgroundTasks()

    # -- running --

    async def run(self) -> None:
        """Run until `stop` was called and all tasks are finished. Raises `LocalError` if the program cannot
        be this agent."""
        attached = self._background.spawn("keep attached", self._keep_attached(), reports=False)
        finished = self._background.spawn("wait for tasks", self._idle.wait())
        try:
            await asyncio.wait({attached, finished}, return_when=asyncio.FIRST_COMPLETED)
            if attached.done():
                attached.result()
            else:
                await self._unregister()
        finally:
            active_tasks = list(self._active.values())
            for active in active_tasks:
                active.is_begun = False  # the node cannot be reached any more
            await self._background.close(STOP_TIMEOUT)
            await self._health.close()

    def stop(self) -> None:
        """Accept no more tasks, and finish those that are begun. The second call ends them, the third one
        does not wait."""
        if self._is_aborting:
            self._idle.set()
        elif self._is_stopping:
            self._is_aborting = True
            self._report("Stopping the running commands.")
            for active in self._active.values():
                if active.work is not None:
                    active.work.cancel()
        else:
            self._is_stopping = True
            count = sum(active.is_begun for active in self._active.values())
            if count:
                self._report(f"Stopping when {'one task is' if count == 1 else f'{count} tasks are'} finished.")
        self._check_idle()

    def _check_idle(self) -> None:
        if self._is_stopping and not any(active.is_begun for active in self._active.values()):
            self._idle.set()

    async def _unregister(self) -> None:
        if self._connection is not None:
            try:
                await self._connection.call("unregister", {"session": self._session}, EmptyResponse)
            except (ConnectionClosed, CallRefused) as error:
                self._report(f"The node could not be notified: {error}")

    # -- connection --

    async def _keep_attached(self) -> None:
        pause = MIN_RETRY_DELAY
        while True:
            try:
                async with connect(self._endpoint, self._handle_push) as connection:
                    await self._attached(connection)
            except ConnectionClosed as closed:
                if self._is_replaced:
                    raise LocalError(
                        f"Another program is attached as the agent {self._endpoint.agent_id} now.",
                        "Only one program at a time can be an agent: use another agent id.",
                    ) from None
                if self._connected.is_set():
                    pause = MIN_RETRY_DELAY
                self._report(f"{closed.why} Trying again in {pause:g} s.")
            except CallRefused as refused:
                if not refused.is_temporary and refused.errcode != "PALAVER_NOT_ATTACHED":
                    raise LocalError(f"{self._endpoint.url} refuses: {refused.sentence}", _advice(refused)) from None
                self._report(f"{refused.sentence} Trying again in {pause:g} s.")
            finally:
                self._connection = None
                self._connected.clear()
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_RETRY_DELAY)

    async def _attached(self, connection: AgentConnection) -> None:
        """Register and exchange messages until `ConnectionClosed` or `CallRefused` is raised."""
        tasks = BackgroundTasks()
        listening = tasks.spawn("listen to the node", connection.listen(), reports=False)
        try:
            registered = await self._register(connection)
            self._connection = connection
            self._connected.set()
            self._report(f"Attached as {registered.address}.")
            heartbeats = self._send_heartbeats(connection, registered.heartbeat_seconds)
            heartbeat_task = tasks.spawn("send heartbeats", heartbeats, reports=False)
            done, _ = await asyncio.wait({listening, heartbeat_task}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await tasks.close()

    async def _register(self, connection: AgentConnection) -> RegisterResponse:
        begun = [active for active in self._active.values() if active.is_begun]
        registered = await connection.call(
            "register",
            {
                "session": self._session,
                "runtime": self._description.runtime,
                "capabilities": list(self._description.capabilities),
                "parallel": self._description.parallel,
                "queue": self._description.queue,
                "working": [{"work_id": active.task.work_id, "attempt": active.task.attempt} for active in begun],
            },
            RegisterResponse,
        )
        wanted = {one.work_id for one in registered.working}
        self._cancel_tasks([active.task.work_id for active in begun if active.task.work_id not in wanted])
        return registered

    async def _send_heartbeats(self, connection: AgentConnection, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            working = [work_id for work_id, active in self._active.items() if active.is_begun]
            alive = await connection.call(
                "heartbeat", {"session": self._session, "working": working}, HeartbeatResponse
            )
            self._cancel_tasks(alive.cancelled)

    # -- tasks --

    def _handle_push(self, push: Push) -> None:
        self._is_replaced |= push.errcode == "PALAVER_SESSION_REPLACED"
        self._cancel_tasks(push.cancelled)
        if push.task is None:
            return
        task = push.task.to_do(self._now_ms())
        known = self._active.get(task.work_id)
        if known is not None:
            # The task was not begun in time, and is offered again.
            if not known.is_begun:
                known.task = task
        elif self._is_stopping:
            self._send_later(self._refuse(push.task))
        else:
            active = self._active[task.work_id] = _ActiveTask(task)
            active.work = self._background.spawn("run a task", self._do(active))

    def _cancel_tasks(self, work_ids: list[str]) -> None:
        """Stop tasks that were cancelled."""
        for work_id in work_ids:
            active = self._active.get(work_id)
            if active is not None and active.work is not None:
                self._report(f"The task {active.task.task_id} was cancelled.")
                active.outcome = None
                active.is_begun = False
                active.work.cancel()

    async def _refuse(self, task: Task) -> None:
        error = TaskError(ErrorCode.AGENT_BUSY, "The agent is stopping.")
        await self._send_outcome(task.work_id, task.attempt, error)

    async def _do(self, active: _ActiveTask) -> None:
        try:
            await self._health.wait()
            if not await self._begin(active):
                return
            self._report(f"Working on the task {active.task.task_id} of {active.task.from_agent}.")
            try:
                run = await run_task(
                    self._settings, active.task, lambda text: self._progress(active, text), now_ms=self._now_ms
                )
                self._health.record(run)
                active.outcome = run.outcome
            except asyncio.CancelledError:
                if not active.is_begun:
                    raise
                # The program was told to stop.
                reason = "The program that ran the task was stopped."
                active.outcome = TaskError(ErrorCode.NODE_UNREACHABLE, reason, {"interrupted": True})
            await self._deliver(active, active.outcome)
        finally:
            del self._active[active.task.work_id]
            self._check_idle()

    async def _begin(self, active: _ActiveTask) -> bool:
        """Ask the node for permission to begin. If it is not granted, the node offers the task again."""
        connection = self._connection
        if connection is None or self._is_stopping:
            return False
        try:
            response = await connection.call(
                "begin", self._task_fields(active.task.attempt), TaskCallResponse, active.task.work_id
            )
        except (ConnectionClosed, CallRefused) as error:
            self._report(f"The task {active.task.task_id} could not be started: {error}")
            return False
        active.is_begun = response.wanted
        return response.wanted

    async def _progress(self, active: _ActiveTask, text: str) -> None:
        if self._connection is not None:
            try:
                body = {**self._task_fields(active.task.attempt), "text": text}
                await self._connection.call("progress", body, TaskCallResponse, active.task.work_id)
            except (ConnectionClosed, CallRefused):
                pass  # the next message says more

    async def _deliver(self, active: _ActiveTask, outcome: WorkOutcome) -> None:
        """Send the outcome until the node has stored it or no longer wants it."""
        while True:
            await self._connected.wait()
            try:
                wanted = await self._send_outcome(active.task.work_id, active.task.attempt, outcome)
            except ConnectionClosed:
                await asyncio.sleep(MIN_RETRY_DELAY)
                continue
            except CallRefused as refused:
                if refused.is_temporary or refused.status == 409:
                    await asyncio.sleep(MIN_RETRY_DELAY)
                    continue
                self._report(f"The answer to the task {active.task.task_id} was refused: {refused.sentence}")
                # The node does not accept the form of the answer. Send a valid one, so that the requester
                # need not wait for the deadline.
                outcome = Answer(False, "The agent's answer was refused by its node.", 1)
                if active.outcome == outcome:
                    return
                active.outcome = outcome
                continue
            if wanted:
                self._report(f"The task {active.task.task_id} was answered.")
            return

    async def _send_outcome(self, work_id: str, attempt: int, outcome: WorkOutcome) -> bool:
        connection = self._connection
        if connection is None:
            raise ConnectionClosed("There is no connection.")
        body: dict[str, Any] = {**self._task_fields(attempt), "metadata": dict(outcome.metadata)}
        if isinstance(outcome, TaskError):
            body |= {"code": outcome.code.value, "reason": outcome.reason}
            return (await connection.call("fail", body, TaskCallResponse, work_id)).wanted
        body |= {"success": outcome.success, "output": outcome.output, "exit_code": outcome.exit_code}
        return (await connection.call("finish", body, TaskCallResponse, work_id)).wanted

    def _task_fields(self, attempt: int) -> dict[str, Any]:
        return {"session": self._session, "attempt": attempt}

    # -- health of the command --

    def _failed(self, problem: str) -> None:
        self._report(f"The command does not work: {problem}")
        self._send_later(self._set_status("error"))

    def _recovered(self) -> None:
        self._send_later(self._set_status("idle"))

    async def _set_status(self, status: str) -> None:
        if self._connection is not None:
            await self._connection.call("set_status", {"session": self._session, "status": status}, EmptyResponse)

    def _send_later(self, call: Coroutine[Any, Any, Any]) -> None:
        async def run() -> None:
            try:
                await call
            except (ConnectionClosed, CallRefused) as error:
                self._report(f"The node could not be notified: {error}")

        self._background.spawn("message to the node", run())


def _advice(refused: CallRefused) -> str:
    if refused.status in {401, 403}:
        return "`palaver agents token create ID` makes a token, and `palaver agents token list` shows all."
    return "Check the node's address and version."
