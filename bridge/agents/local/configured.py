"""The agents that the node runs itself: it starts a process for each task.

A command starts only after the task service has stored the step to `running`. After a kill of the node, a task
that had begun is not started again, and a task that had not begun is delivered again.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent, AgentStatus, StatusInput
from bridge.agents.local.command import agent_environment, directory_name
from bridge.agents.local.health import HealthMonitor, problem_of
from bridge.agents.local.process import GRACE, CommandSettings, run_task
from bridge.agents.local.reporting import begin, progress_content, report
from bridge.agents.routing_table import RoutingTable
from bridge.agents.statuses import AgentStatuses
from bridge.agents.updates import Registration, StatusUpdate, Unregistration, Update
from bridge.agents.work import assignment_of
from bridge.config.agents import Agent as Configured
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.ports import Delivered, DeliveryOutcome, NotInThisProcess, Rejected
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.service import TaskService
from bridge.tasks.task import Task
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost

CONNECTOR: Final = "command"
"""The connector name of these agents."""
REMOVED: Final = "removed"
SHUTDOWN: Final = "shutdown"
CANCEL_FORWARD_MS: Final = 60_000
"""Time after the end of a task in which its cancellation is forwarded to the process that may still run
it."""

log = structlog.get_logger("palaver")


@dataclass(frozen=True, slots=True)
class _ConfiguredAgent:
    address: AgentAddress
    config: Configured
    settings: CommandSettings
    health: HealthMonitor


@dataclass(frozen=True, slots=True)
class CommandProblem:
    """Why an agent's command does not work, as a sentence for the operator, and since when, if a task has
    shown it."""

    sentence: str
    since_ms: int | None


@dataclass(slots=True)
class _Running:
    task: Task
    work: "asyncio.Task[None] | None" = None
    is_begun: bool = False


class ConfiguredAgents:
    """A `Delivery` that runs commands. It reports to `statuses` when an agent fails or recovers; the task
    service reports when it is busy or idle."""

    def __init__(
        self,
        agents: Sequence[Configured],
        routes: RoutingTable,
        *,
        statuses: AgentStatuses,
        directory: Path,
        environment: Mapping[str, str],
        now_ms: Callable[[], int],
        grace: float = GRACE,
    ) -> None:
        """`directory` contains the working directories of agents without a configured one; `environment` is
        the node's."""
        self._routes = routes
        self._statuses = statuses
        self._directory = directory
        self._now_ms = now_ms
        self._tasks: TaskService | None = None
        self._agents = {
            agent.id: self._make_agent(agent, _command_settings(agent, directory, environment, grace))
            for agent in agents
        }
        self._problems: dict[AgentAddress, CommandProblem] = {}
        self._running: dict[int, _Running] = {}
        self._background = BackgroundTasks()

    def _make_agent(self, config: Configured, settings: CommandSettings) -> _ConfiguredAgent:
        address = AgentAddress(config.id, self._routes.node_id)

        def failed(problem: str) -> None:
            self._problems[address] = CommandProblem(problem, self._now_ms())
            self._statuses.apply(address, StatusInput.ERROR)
            log.error("An agent has failed.", agent=str(address), problem=problem)

        def recovered() -> None:
            self._problems.pop(address, None)
            self._statuses.apply(address, StatusInput.RECOVER)
            log.info("An agent is used again after a failure.", agent=str(address))

        return _ConfiguredAgent(address, config, settings, HealthMonitor(settings, failed=failed, recovered=recovered))

    # -- the life of the node --

    async def start(self) -> None:
        """Register the agents. Tasks can be delivered after `use_task_service`."""
        for configured in self._agents.values():
            if configured.config.directory is None:
                configured.settings.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            problem = problem_of(configured.settings)
            if problem is not None:
                log.warning("The command of an agent does not work.", agent=str(configured.address), problem=problem)
        await self._routes.update([*self._unregistrations(), *self._registrations()])

    def use_task_service(self, tasks: TaskService) -> None:
        self._tasks = tasks

    async def stop(self) -> None:
        """End all commands, and report their tasks as interrupted."""
        tasks, self._tasks = self._tasks, None
        running = list(self._running.values())
        runs = [each.work for each in running if each.work is not None]
        for work in runs:
            work.cancel()
        await asyncio.gather(*runs, return_exceptions=True)
        await self._background.close()
        for configured in self._agents.values():
            await configured.health.close()
        # Tasks that had not started are started after the next start of the node.
        begun = [each.task for each in running if each.is_begun]
        if tasks is not None:
            await asyncio.gather(*(self._interrupt(tasks, task) for task in begun))

    async def _interrupt(self, tasks: TaskService, task: Task) -> None:
        reason = "The node was stopped while the agent worked on the task."
        error = TaskError(ErrorCode.NODE_UNREACHABLE, reason, {"interrupted": True})
        try:
            await tasks.fail(task.key, error, by=task.request.to_address)
        except ConnectionLost:
            # After the next start the sweep answers the task in the same way.
            log.warning("An interrupted task could not be reported.", task=str(task.key))

    async def close(self) -> None:
        """Unregister the agents. Call it after the task service was closed: queued tasks stay queued."""
        now_ms = self._now_ms()
        unregistrations = [Unregistration(configured.address, SHUTDOWN, now_ms) for configured in self._agents.values()]
        if unregistrations:
            await self._routes.update(unregistrations)

    def _registrations(self) -> Iterable[Update]:
        for configured in self._agents.values():
            at_ms = self._new_timestamp(configured.address)
            capabilities = tuple(configured.config.capabilities)
            yield Registration(configured.address, CONNECTOR, configured.config.runtime, capabilities, at_ms)
            # The node may have been killed while the agent was busy.
            yield StatusUpdate(configured.address, AgentStatus.IDLE, None, at_ms)

    def _unregistrations(self) -> Iterable[Update]:
        for agent in self._routes.table.agents_of(self._routes.node_id).values():
            if agent.is_online and agent.connector == CONNECTOR and agent.agent_id not in self._agents:
                yield Unregistration(agent.address, REMOVED, self._new_timestamp(agent.address))

    def _new_timestamp(self, address: AgentAddress) -> int:
        """A timestamp that is newer than the agent's last update, even if the clock was set back."""
        known = self._routes.agent(address)
        return self._now_ms() if known is None else max(self._now_ms(), known.sent_at + 1)

    # -- queries --

    def settings(self, agent: Agent) -> AgentSettings | None:
        """The agent's settings; None if it is not a configured agent."""
        configured = self._find(agent.address)
        if configured is None:
            return None
        return AgentSettings(
            configured.config.parallel, configured.config.queue if configured.config.busy == "queue" else 0
        )

    def namespaces(self, address: AgentAddress) -> Collection[str] | None:
        """The agent's namespaces; None if it is not a configured agent."""
        configured = self._find(address)
        return None if configured is None else configured.config.namespaces

    def display_name(self, address: AgentAddress) -> str | None:
        configured = self._find(address)
        return None if configured is None else configured.config.display_name

    def problems(self) -> Mapping[AgentAddress, CommandProblem]:
        """The agents whose commands have failed, or cannot work as things are now."""
        visible = {each.address: problem_of(each.settings) for each in self._agents.values()}
        return {
            **{address: CommandProblem(problem, None) for address, problem in visible.items() if problem is not None},
            **self._problems,
        }

    def _find(self, address: AgentAddress) -> _ConfiguredAgent | None:
        return self._agents.get(address.agent_id) if address.node_id == self._routes.node_id else None

    # -- tasks --

    async def deliver(self, task: Task) -> DeliveryOutcome:
        configured = self._find(task.request.to_address)
        if configured is None:
            reason = f"The node has no agent {task.request.to_address}."
            return Rejected(TaskError(ErrorCode.AGENT_NOT_FOUND, reason))
        if self._tasks is None:
            return NotInThisProcess()
        if task.id not in self._running:
            running = self._running[task.id] = _Running(task)
            running.work = self._background.spawn("run a command", self._work(configured, running, self._tasks))
            running.work.add_done_callback(lambda _: self._running.pop(task.id, None))
        return Delivered()

    async def cancel(self, task: Task) -> bool:
        running = self._running.get(task.id)
        if running is not None and running.work is not None:
            running.work.cancel()
            await asyncio.wait({running.work})
            return True
        # The task may run in another process of the node. That process is notified, for a limited time.
        ended_ago = self._now_ms() - (task.finished_at or 0)
        return task.runner is None or self._tasks is None or ended_ago > CANCEL_FORWARD_MS

    async def _work(self, configured: _ConfiguredAgent, running: _Running, tasks: TaskService) -> None:
        task = running.task

        async def report_progress(message: str) -> None:
            try:
                await tasks.progress(task.key, progress_content(message), by=configured.address)
            except ConnectionLost:
                log.debug("A progress message of a task was lost.", task=str(task.key))

        try:
            # While the command does not work at all, the task waits here, until its deadline at most.
            await configured.health.wait()
            if not await begin(tasks, task):
                return
            running.is_begun = True
            run = await run_task(configured.settings, assignment_of(task), report_progress, now_ms=self._now_ms)
            # Report a failure before the task ends, because only a busy agent can fail.
            configured.health.record(run)
            outcome = run.outcome
        except Exception as error:
            log.exception("An unexpected error ended a task.", task=str(task.key))
            outcome = Answer(False, f"The agent could not be run: {type(error).__name__}.", 1)
        await report(tasks, task, outcome)


def _command_settings(
    agent: Configured, directory: Path, environment: Mapping[str, str], grace: float
) -> CommandSettings:
    return CommandSettings(
        words=agent.words,
        environment=agent_environment(environment, agent.pass_environment, agent.environment),
        directory=agent.directory or directory / directory_name(agent.id),
        time_limit=agent.time_limit,
        max_output=int(agent.max_output),
        grace=grace,
    )
