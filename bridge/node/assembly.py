"""Puts the core of a node together as its configuration says: agents, connectors, and what operators see."""

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from nacl.signing import SigningKey

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent
from bridge.agents.attached import tokens as token_commands
from bridge.agents.attached.attached import AttachedLimits
from bridge.agents.attached.http import add_routes
from bridge.agents.attached.services import AgentServices
from bridge.agents.attached.tokens import AgentTokens
from bridge.agents.local.local import LocalAgents
from bridge.agents.routing_table import RoutingTable
from bridge.agents.statuses import AgentStatuses
from bridge.clock import monotonic, now_ms
from bridge.config.agent_federation import AgentFederation, task_limits
from bridge.config.config import Config
from bridge.config.people import people_settings, rights
from bridge.connectors.interface import Connector, NodeParts, PortalRoom
from bridge.connectors.registry import CONNECTORS
from bridge.control.agents import commands as agent_operator
from bridge.control.agents.commands import PROTOCOL, CommandContext, OperatorReply
from bridge.control.agents.context import ForPeople
from bridge.control.socket import Command
from bridge.control.stream import Stream
from bridge.matrix.ghost import GhostNames
from bridge.matrix.ghosts import Ghosts
from bridge.node.core import AgentCore, AgentCoreParts
from bridge.observability.agent_observer import AgentObserver
from bridge.observability.live_feed import LiveFeed
from bridge.observability.metrics import Metrics
from bridge.peers.service import AgentPeers
from bridge.people.room import alias_localpart
from bridge.people.service.people import People
from bridge.people.settings import PeopleSettings
from federation.events.room_event import RoomEvent
from storage.errors import LocalError

if TYPE_CHECKING:
    from bridge.node.backend import NodeBackend

AGENT_DIRECTORY: Final = "agents"
"""In the data directory, for configured agents without a directory of their own."""


class NodeCore:
    """`replies` lets operators in this process wait for the answers to their tasks.

    `serve` adds the core's routes to the node's port; they respond once the core has been started. Close it
    after the port and before the backend.
    """

    def __init__(
        self,
        config: Config,
        backend: "NodeBackend",
        peers: AgentPeers,
        *,
        key: Callable[[], SigningKey],
        metrics: Metrics,
        version: str,
    ) -> None:
        self._config = config
        self._backend = backend
        self._for_people = backend.for_people
        self._key = key
        self._version = version
        self._people: People | None = None
        self._feed = LiveFeed(now_ms=now_ms)
        self.replies = OperatorReply()
        self._metrics = metrics
        self._observer = AgentObserver(metrics.agents, self._feed, backend.audit, now_ms=now_ms)
        self._peers = peers
        self._connectors: Sequence[Connector] = ()
        self._names = backend.names(self._has_puppet)
        self.tokens = AgentTokens(backend.database, now_ms=now_ms)
        self.core = AgentCore(
            AgentCoreParts(
                node_id=config.server_name,
                database=backend.database,
                observer=self._observer,
                local=self._make_agents,
                connectors=self._make_connectors,
                replies={PROTOCOL: self.replies},
                limits=task_limits(config.agent_federation),
                agent_timeout_ms=int(config.agent_federation.agent_timeout_secs * 1000),
                now_ms=now_ms,
            )
        )
        self.core.table.subscribe(self._feed.agents_changed)
        metrics.agents.watch_agents(self._count)

    def serve(self, app: web.Application) -> None:
        table = self.core.table
        agents = self._agents
        add_routes(app, AgentServices(self.tokens, agents.attached, agents.work, table, now_ms, monotonic))
        app.add_routes(self.core.routes())

    def agents_in_error(self) -> list[dict[str, Any]]:
        """The agents whose commands do not work in this process."""
        return [
            {"agent": str(address), "problem": problem.sentence, "since": problem.since_ms}
            for address, problem in self._agents.problems().items()
        ]

    def commands(self) -> Mapping[str, Command]:
        """For the command line."""
        return {
            **token_commands.commands(self.tokens),
            **agent_operator.commands(self._operated()),
            **{name: command for one in self._connectors for name, command in one.commands().items()},
        }

    def streams(self) -> Mapping[str, Stream]:
        """The same for commands with continuous output."""
        return {
            **agent_operator.streams(self._operated()),
            **{name: stream for one in self._connectors for name, stream in one.streams().items()},
        }

    async def start(self) -> None:
        await self.core.start()
        if self._for_people is not None:
            self._for_people.start(
                self.core.table,
                self._ghosts,
                name_of=self._agents.display_name,
                is_of_agents=lambda room_id: room_id in self.rooms().values(),
            )

    async def close(self) -> None:
        await self.core.close()

    # -- queries of the backend --

    def is_agent(self, address: AgentAddress) -> bool:
        return self.core.table.agent(address) is not None

    def has_room(self, namespace: str) -> bool:
        return self._people is not None and namespace in self._config.agent_federation.namespaces

    async def provide_room(self, namespace: str) -> bool:
        return self._people is not None and await self._people.rooms.provide(namespace)

    async def has_portal(self, localpart: str) -> bool:
        """Whether a connector has a room with this alias localpart."""
        return any([await one.has_alias(localpart) for one in self._connectors])

    async def provide_portal(self, localpart: str) -> bool:
        """The same; on return the alias resolves to the room."""
        return any([await one.ensure_alias(localpart) for one in self._connectors])

    async def make_portal(self, alias: str, asked_by: str) -> bool:
        """Whether a connector has, or creates, a room with this alias when the server `asked_by` looks it
        up."""
        return any([await one.create_for_alias(alias, asked_by) for one in self._connectors])

    async def portal(self, room_id: str) -> PortalRoom | None:
        """The connector's description of the room, if it belongs to one."""
        for one in self._connectors:
            found = await one.portal(room_id)
            if found is not None:
                return found
        return None

    def rooms(self) -> Mapping[str, str]:
        return {} if self._people is None else self._people.rooms.all()

    def alias(self, namespace: str) -> str:
        return f"#{alias_localpart(namespace)}:{self._names.domain}"

    def release_room(self, namespace: str) -> None:
        if self._people is not None:
            self._people.rooms.give_up(namespace)

    @property
    def names(self) -> GhostNames:
        return self._names

    # -- parts --

    def _operated(self) -> CommandContext:
        return CommandContext(
            node_id=self._config.server_name,
            database=self._backend.database,
            routes=self.core.table,
            tasks=self.core.tasks,
            local=self._agents,
            replies=self.replies,
            feed=self._feed,
            configured={agent.id for agent in self._config.agents},
            removal_refusal=self._kept,
            now_ms=now_ms,
            for_people=None
            if self._for_people is None
            else ForPeople(self._for_people.person_sender, rights(self._config.people, self._config.permissions)),
        )

    def _make_agents(self, table: RoutingTable, statuses: AgentStatuses) -> LocalAgents:
        self._agents = LocalAgents(
            self._config.agents,
            table,
            statuses,
            directory=self._config.data_dir / AGENT_DIRECTORY,
            environment=os.environ,
            now_ms=now_ms,
            monotonic=monotonic,
            limits=attached_limits(self._config.agent_federation),
            reserved_for=self._reserved_for,
        )
        return self._agents

    def _make_connectors(self, table: RoutingTable, agents: LocalAgents) -> Sequence[Connector]:
        ghosts = self._ghosts = Ghosts(
            self._backend.side,
            self._backend.database,
            table,
            names=self._names,
            name_of=self._agents.display_name,
            report=self._observer.problem,
            monotonic=monotonic,
        )
        parts = NodeParts(
            config=self._config,
            backend=self._backend.side,
            database=self._backend.database,
            routes=table,
            ghosts=ghosts,
            names=self._names,
            people=self._people_settings(),
            peers=self._peers,
            audit=self._backend.audit,
            feed=self._feed,
            metrics=self._metrics.registry,
            namespaces_of=agents.namespaces,
            admits=self._backend.admits,
            key=self._key,
            version=self._version,
            report=self._observer.problem,
            now_ms=now_ms,
            monotonic=monotonic,
        )
        self._connectors = [import_module(one.module).connect(parts) for one in CONNECTORS]
        if not self._config.people.enabled:
            return self._connectors
        self._people = People(
            self._backend.side,
            self._backend.database,
            table,
            self._people_settings(),
            ghosts,
            now_ms=now_ms,
            monotonic=monotonic,
            namespaces_of=self._namespaces_of,
            is_foreign=lambda room_id: any(one.owns_room(room_id) for one in self._connectors),
            speaks=None if self._for_people is None else self._for_people.person_sender,
            is_handled_elsewhere=self._answered_elsewhere,
            report=self._observer.problem,
        )
        return [*self._connectors, self._people]

    def _people_settings(self) -> PeopleSettings:
        config = self._config
        return people_settings(self._names, config.people, config.permissions, config.agent_federation.namespaces)

    def _has_puppet(self, address: AgentAddress) -> bool:
        return any(one.has_local_ghost(address) for one in self._connectors)

    def _reserved_for(self, address: AgentAddress) -> str | None:
        return next(filter(None, (one.reserved_for(address) for one in self._connectors)), None)

    def _kept(self, agent: Agent) -> LocalError | None:
        connector = self.core.connector_of(agent)
        return None if connector is None else connector.removal_error(agent)

    def _namespaces_of(self, address: AgentAddress) -> Sequence[str]:
        """An agent that reads no tasks is not needed in the rooms where people assign them."""
        agent = self.core.table.agent(address)
        federation = self._config.agent_federation
        if agent is None:
            return federation.known_namespaces(())
        connector = self.core.connector_of(agent)
        if connector is not None and not connector.accepts_chat_tasks(agent):
            return ()
        return federation.known_namespaces(self._agents.namespaces(agent))

    async def _answered_elsewhere(self, event: RoomEvent) -> bool:
        """Whether a connector answers this message of a person."""
        return any([await one.handles_message(event) for one in self._connectors])

    def _count(self) -> Mapping[str, int]:
        table, here = self.core.table.table, self._config.server_name
        on_others = sum(table.count(node.node_id) for node in table.nodes() if node.node_id != here)
        return {"here": table.count(here), "elsewhere": on_others}


def attached_limits(federation: AgentFederation) -> AttachedLimits:
    """An attached program needs heartbeats as often as a node: both count as offline after the same
    silence."""
    return AttachedLimits(heartbeat=federation.heartbeat_interval_secs, timeout=federation.agent_timeout_secs)
