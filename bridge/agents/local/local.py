"""All agents of this node: those that it runs itself and those that attach themselves."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent
from bridge.agents.attached import attached
from bridge.agents.attached.attached import AttachedAgents, AttachedLimits, no_reservation
from bridge.agents.attached.work import AttachedWork
from bridge.agents.local import configured
from bridge.agents.local.configured import CommandProblem, ConfiguredAgents
from bridge.agents.local.process import GRACE
from bridge.agents.routing_table import RoutingTable
from bridge.agents.statuses import AgentStatuses
from bridge.config.agents import Agent as Configured
from bridge.matrix.ghost import NODE_USER
from bridge.tasks.ports import Delivery
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.service import TaskService

DEFAULT_NAMESPACES: Final = ("default",)


class LocalAgents:
    """Call `start` and `use_task_service` first, `stop` while the task service still runs, and `close` after
    it."""

    def __init__(
        self,
        agents: Sequence[Configured],
        routes: RoutingTable,
        statuses: AgentStatuses,
        *,
        directory: Path,
        environment: Mapping[str, str],
        now_ms: Callable[[], int],
        monotonic: Callable[[], float],
        limits: AttachedLimits | None = None,
        reserved_for: Callable[[AgentAddress], str | None] = no_reservation,
        grace: float = GRACE,
    ) -> None:
        """`directory` contains the working directories of agents without a configured one; `environment` is
        the node's. `reserved_for` returns a sentence if an address is reserved, so that no program can attach
        itself under it."""
        self.configured = ConfiguredAgents(
            agents, routes, statuses=statuses, directory=directory, environment=environment, now_ms=now_ms, grace=grace
        )
        self.attached = AttachedAgents(
            routes,
            statuses=statuses,
            is_reserved={NODE_USER, *(agent.id for agent in agents)}.__contains__,
            reserved_for=reserved_for,
            now_ms=now_ms,
            monotonic=monotonic,
            limits=limits,
        )
        self.work = AttachedWork(self.attached, monotonic=monotonic)

    @property
    def deliveries(self) -> Mapping[str, Delivery]:
        return {configured.CONNECTOR: self.configured, attached.CONNECTOR: self.attached}

    def settings(self, agent: Agent) -> AgentSettings | None:
        return self.configured.settings(agent) or self.attached.settings(agent)

    def namespaces(self, agent: Agent) -> Collection[str]:
        """The configured namespaces, or the default for an attached agent."""
        return self.configured.namespaces(agent.address) or DEFAULT_NAMESPACES

    def display_name(self, agent: Agent) -> str | None:
        """The configured display name."""
        return self.configured.display_name(agent.address)

    def problems(self) -> Mapping[AgentAddress, CommandProblem]:
        """The configured agents whose commands do not work."""
        return self.configured.problems()

    def use_task_service(self, task_service: TaskService) -> None:
        self.configured.use_task_service(task_service)
        self.attached.use_task_service(task_service)

    async def start(self) -> None:
        await self.configured.start()

    async def stop(self) -> None:
        self.attached.stop()
        await self.configured.stop()

    async def close(self) -> None:
        """Unregister the configured agents. Attached agents stay registered; they time out if they do not
        come back."""
        await self.attached.close()
        await self.configured.close()
