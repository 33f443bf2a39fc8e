"""All agents of this node, however they are attached to it, as one part of its core."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent
from bridge.agents.attached import attached
from bridge.agents.attached.attached import AttachedAgents, AttachedLimits, for_anybody
from bridge.agents.attached.work import AttachedWork
from bridge.agents.local import configured
from bridge.agents.local.configured import ConfiguredAgents
from bridge.agents.local.process import GRACE
from bridge.agents.routing_table import RoutingTable
from bridge.agents.statuses import AgentStatuses
from bridge.config.agents import Agent as Configured
from bridge.matrix.ghost import NODE_USER
from bridge.tasks.ports import Delivery
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.service import TaskService

DEFAULT_NAMESPACES: Final = ("default",)


class AgentsOfThisNode:
    """`directory` is for configured agents that have none of their own, `environment` is the node's. First
    come `start` and `work_for`; in the end `stop`, while there is still a desk, and `close`."""

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
        kept_for: Callable[[AgentAddress], str | None] = for_anybody,
        grace: float = GRACE,
    ) -> None:
        """`kept_for` says whose an address is that no program can attach itself as."""
        self.configured = ConfiguredAgents(
            agents,
            routes,
            statuses=statuses,
            directory=directory,
            environment=environment,
            now_ms=now_ms,
            grace=grace,
        )
        self.attached = AttachedAgents(
            routes,
            statuses=statuses,
            is_reserved={NODE_USER, *(agent.id for agent in agents)}.__contains__,
            kept_for=kept_for,
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
        """Of a program that has attached itself nobody has said another."""
        return self.configured.namespaces(agent.address) or DEFAULT_NAMESPACES

    def display_name(self, agent: Agent) -> str | None:
        """As the configuration has it."""
        return self.configured.display_name(agent.address)

    def work_for(self, desk: TaskService) -> None:
        self.configured.work_for(desk)
        self.attached.work_for(desk)

    async def start(self) -> None:
        await self.configured.start()

    async def stop(self) -> None:
        self.attached.stop()
        await self.configured.stop()

    async def close(self) -> None:
        """Those that have attached themselves stay: they are heard from, or not."""
        await self.attached.close()
        await self.configured.close()
