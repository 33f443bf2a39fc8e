"""The agents that the node runs itself: each task becomes a process.

Nothing is run before the desk has stored that it is. So what was lost with the node is never begun a second
time, and what had not been begun is.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent, AgentStatus, StatusInput
from bridge.agents.local.command import directory_name, own_environment
from bridge.agents.local.health import Fitness, problem_of
from bridge.agents.local.process import GRACE, Recipe, carry_out
from bridge.agents.local.reporting import begin, progress_content, report
from bridge.agents.news import News, Registered, StatusSaid, Unregistered
from bridge.agents.routing_table import RoutingTable
from bridge.agents.statuses import AgentStatuses
from bridge.agents.work import to_do
from bridge.config.agents import Agent as Configured
from bridge.tasks.answer import Answer
from bridge.tasks.errors import ErrorCode, TaskError
from bridge.tasks.ports import Delivered, DeliveryOutcome, NotHere, Rejected
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.service import TaskService
from bridge.tasks.task import Task
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost

CONNECTOR: Final = "command"
"""By which name the desk knows who brings these agents their tasks."""
REMOVED: Final = "removed"
SHUTDOWN: Final = "shutdown"
TOLD_FOR_MS: Final = 60_000
"""After the end of a task nobody is looked for any more who may still run it."""

log = structlog.get_logger("palaver")


@dataclass(frozen=True, slots=True)
class _One:
    address: AgentAddress
    said: Configured
    recipe: Recipe
    fitness: Fitness


@dataclass(slots=True)
class _Running:
    task: Task
    work: "asyncio.Task[None] | None" = None
    is_begun: bool = False


class ConfiguredAgents:
    """A `Delivery`. `statuses` is told when an agent fails and recovers; of what it works on the desk tells
    it."""

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
        """`directory` is for agents that have none of their own; `environment` is the node's."""
        self._routes = routes
        self._statuses = statuses
        self._directory = directory
        self._now_ms = now_ms
        self._desk: TaskService | None = None
        self._agents = {
            agent.id: self._one_of(agent, _recipe(agent, directory, environment, grace)) for agent in agents
        }
        self._running: dict[int, _Running] = {}
        self._background = BackgroundTasks()

    def _one_of(self, said: Configured, recipe: Recipe) -> _One:
        address = AgentAddress(said.id, self._routes.node_id)

        def failed(problem: str) -> None:
            self._statuses.take(address, StatusInput.ERROR)
            log.error("An agent has failed.", agent=str(address), problem=problem)

        def recovered() -> None:
            self._statuses.take(address, StatusInput.RECOVER)
            log.info("An agent is tried again.", agent=str(address))

        return _One(address, said, recipe, Fitness(recipe, failed=failed, recovered=recovered))

    # -- the life of the node --

    async def start(self) -> None:
        """The agents are there. Tasks may come once there is a desk."""
        for one in self._agents.values():
            if one.said.directory is None:
                one.recipe.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            problem = problem_of(one.recipe)
            if problem is not None:
                log.warning("An agent will fail.", agent=str(one.address), problem=problem)
        await self._routes.take([*self._news_of_removed(), *self._news_of_all()])

    def work_for(self, desk: TaskService) -> None:
        self._desk = desk

    async def stop(self) -> None:
        """End what runs, and say so while the desk is still there."""
        desk, self._desk = self._desk, None
        running = list(self._running.values())
        works = [each.work for each in running if each.work is not None]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)
        await self._background.close()
        for one in self._agents.values():
            await one.fitness.close()
        # What had not been begun is begun after the next start.
        begun = [each.task for each in running if each.is_begun]
        if desk is not None:
            await asyncio.gather(*(self._interrupt(desk, task) for task in begun))

    async def _interrupt(self, desk: TaskService, task: Task) -> None:
        reason = "The node was stopped while the agent worked on it."
        error = TaskError(ErrorCode.NODE_UNREACHABLE, reason, {"interrupted": True})
        try:
            await desk.fail(task.key, error, by=task.request.to_address)
        except ConnectionLost:
            # After the next start the desk finds it, and says much the same.
            log.warning("It could not be said that a task was interrupted.", task=str(task.key))

    async def close(self) -> None:
        """The agents are gone. The desk is, too: what waits for them goes on waiting."""
        now_ms = self._now_ms()
        gone = [Unregistered(one.address, SHUTDOWN, now_ms) for one in self._agents.values()]
        if gone:
            await self._routes.take(gone)

    def _news_of_all(self) -> Iterable[News]:
        for one in self._agents.values():
            at_ms = self._newest(one.address)
            capabilities = tuple(one.said.capabilities)
            yield Registered(one.address, CONNECTOR, one.said.runtime, capabilities, at_ms)
            # The node may have been killed while it was busy.
            yield StatusSaid(one.address, AgentStatus.IDLE, None, at_ms)

    def _news_of_removed(self) -> Iterable[News]:
        for agent in self._routes.table.agents_of(self._routes.node_id).values():
            if agent.is_here and agent.connector == CONNECTOR and agent.agent_id not in self._agents:
                yield Unregistered(agent.address, REMOVED, self._newest(agent.address))

    def _newest(self, address: AgentAddress) -> int:
        """A clock that was put back must not make it be taken for old news."""
        known = self._routes.agent(address)
        return self._now_ms() if known is None else max(self._now_ms(), known.sent_at + 1)

    # -- what is asked --

    def settings(self, agent: Agent) -> AgentSettings | None:
        """None for an agent that is none of these."""
        one = self._one(agent.address)
        if one is None:
            return None
        return AgentSettings(one.said.parallel, one.said.queue if one.said.busy == "queue" else 0)

    def namespaces(self, address: AgentAddress) -> Collection[str] | None:
        """None for an agent that is none of these."""
        one = self._one(address)
        return None if one is None else one.said.namespaces

    def display_name(self, address: AgentAddress) -> str | None:
        one = self._one(address)
        return None if one is None else one.said.display_name

    def problem(self, address: AgentAddress) -> str | None:
        """Why the agent does not work, in a sentence for the operator."""
        one = self._one(address)
        return None if one is None else one.fitness.problem

    def _one(self, address: AgentAddress) -> _One | None:
        return self._agents.get(address.agent_id) if address.node_id == self._routes.node_id else None

    # -- tasks --

    async def deliver(self, task: Task) -> DeliveryOutcome:
        one = self._one(task.request.to_address)
        if one is None:
            reason = f"The node has no agent {task.request.to_address}."
            return Rejected(TaskError(ErrorCode.AGENT_NOT_FOUND, reason))
        if self._desk is None:
            return NotHere()
        if task.id not in self._running:
            running = self._running[task.id] = _Running(task)
            running.work = self._background.spawn("run a command", self._work(one, running, self._desk))
            running.work.add_done_callback(lambda _: self._running.pop(task.id, None))
        return Delivered()

    async def cancel(self, task: Task) -> bool:
        running = self._running.get(task.id)
        if running is not None and running.work is not None:
            running.work.cancel()
            await asyncio.wait({running.work})
            return True
        # It may run in another process of the node, which is told then; for a while.
        ended_ago = self._now_ms() - (task.finished_at or 0)
        return task.runner is None or self._desk is None or ended_ago > TOLD_FOR_MS

    async def _work(self, one: _One, running: _Running, desk: TaskService) -> None:
        task = running.task

        async def tell(message: str) -> None:
            try:
                await desk.progress(task.key, progress_content(message), by=one.address)
            except ConnectionLost:
                log.debug("A report on a task is lost.", task=str(task.key))

        try:
            # If its command does not work at all, it waits here, up to its own deadline.
            await one.fitness.wait()
            if not await begin(desk, task):
                return
            running.is_begun = True
            carried_out = await carry_out(one.recipe, to_do(task), tell, now_ms=self._now_ms)
            # Before the desk knows of the end: an agent fails while it is busy, and not afterwards.
            one.fitness.judge(carried_out)
            outcome = carried_out.outcome
        except Exception as error:
            log.exception("A task failed in a way that nobody foresaw.", task=str(task.key))
            outcome = Answer(False, f"The agent could not be run: {type(error).__name__}.", 1)
        await report(desk, task, outcome)


def _recipe(agent: Configured, directory: Path, environment: Mapping[str, str], grace: float) -> Recipe:
    return Recipe(
        words=agent.words,
        environment=own_environment(environment, agent.pass_environment, agent.environment),
        directory=agent.directory or directory / directory_name(agent.id),
        time_limit=agent.time_limit,
        max_output=int(agent.max_output),
        grace=grace,
    )
