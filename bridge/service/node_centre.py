"""The centre of a node, as its configuration wants it: which agents, which connectors, who may look on."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from aiohttp import web
from nacl.signing import SigningKey

from bridge.address import AgentAddress
from bridge.agent_metrics import AgentMetrics
from bridge.clock import monotonic, now_ms
from bridge.config import Config
from bridge.config_agent_federation import AgentFederation, cis_settings, task_limits
from bridge.config_offices import office_settings
from bridge.config_people import people_settings, rights
from bridge.connectors.cis.rooms import parse_room_id
from bridge.connectors.cis.service.connector import CisConnector, CisParts
from bridge.connectors.interface import Connector
from bridge.connectors.offices.member_agents import CONNECTOR as OFFICES
from bridge.connectors.offices.member_agents import all_gone, reserved
from bridge.connectors.offices.office import Member
from bridge.connectors.offices.service.connector import OfficesConnector
from bridge.connectors.offices.service.direct_calls import DirectCalls
from bridge.connectors.offices.service.recording import RoomParts
from bridge.connectors.offices.service.sealing import Sealing
from bridge.ghost_names import GhostNames
from bridge.people.agents_room import alias_localpart
from bridge.people.service.listener import nobody_elses
from bridge.people.service.people import People
from bridge.people.settings import PeopleSettings
from bridge.service import agent_operator, office_calling, office_commands, office_token_commands
from bridge.service.agent_api.routes import serve
from bridge.service.agent_api.services import AgentServices
from bridge.service.agent_observer import AgentObserver
from bridge.service.agent_operator import PROTOCOL, OperatorReply, Parts
from bridge.service.agent_operator.in_a_name import ForPeople
from bridge.service.agent_peers import AgentPeers
from bridge.service.agents import token_commands
from bridge.service.agents.attached import AttachedLimits, for_anybody
from bridge.service.agents.local import AgentsOfThisNode
from bridge.service.agents.tokens import AgentTokens
from bridge.service.centre import Centre, CentreParts, LocalAgents
from bridge.service.cis_audit import CisAudit
from bridge.service.control_socket import Command
from bridge.service.control_stream import Stream
from bridge.service.ghosts import Ghosts
from bridge.service.live_feed import LiveFeed
from bridge.service.matrix_carrier import Carrier
from bridge.service.office_audit import OfficeAudit
from bridge.service.office_tokens import OfficeTokens
from bridge.service.routing_table import RoutingTable
from bridge.service.settings import broker_password
from bridge.service.task_steps import AgentDuty

AGENT_DIRECTORY: Final = "agents"
"""In the data directory: of configured agents that have none of their own."""


class NodeCentre:
    """`replies` are where whoever asks in this process waits for the answer.

    `serve` puts it behind the node's port, which answers once it has been started. It is closed after the
    port, and before what carries it. Satisfies `bridge.service.matrix_carrier.Inhabited`."""

    def __init__(
        self,
        config: Config,
        carrier: Carrier,
        peers: AgentPeers,
        *,
        key: Callable[[], SigningKey],
        metrics: AgentMetrics,
        version: str,
    ) -> None:
        self._config = config
        self._carrier = carrier
        self._for_people = carrier.for_people
        self._key = key
        self._version = version
        self._people: People | None = None
        self._offices: OfficesConnector | None = None
        self._feed = LiveFeed(now_ms=now_ms)
        self.replies = OperatorReply()
        self._observer = AgentObserver(metrics, [self._feed, CisAudit(carrier.audit, now_ms=now_ms)])
        self._peers = peers
        # Those of the configuration, and those that operators have added since.
        settings = cis_settings(config.server_name, config.agent_federation)
        self._settings = replace(settings, peers=peers.peers)
        self._names = carrier.names(self._has_puppet)
        self.tokens = AgentTokens(carrier.database, now_ms=now_ms)
        self.office_tokens = OfficeTokens(carrier.database, now_ms)
        self.centre = Centre(
            CentreParts(
                node_id=config.server_name,
                database=carrier.database,
                observer=self._observer,
                local=self._make_agents,
                connectors=self._make_connectors,
                replies={PROTOCOL: self.replies},
                limits=task_limits(config.agent_federation),
                agent_timeout_ms=int(config.agent_federation.agent_timeout_secs * 1000),
                now_ms=now_ms,
            )
        )
        self.centre.table.subscribe(self._feed.agents_changed)
        metrics.watch_agents(self._count)

    def serve(self, app: web.Application) -> None:
        table = self.centre.table
        agents = self._agents
        serve(app, AgentServices(self.tokens, agents.attached, agents.work, table, now_ms, monotonic))
        app.add_routes(self.centre.routes())

    def commands(self) -> Mapping[str, Command]:
        """For the command line."""
        return {
            **token_commands.commands(self.tokens),
            **office_token_commands.commands(self.office_tokens),
            **office_commands.commands(self._office_members, self._carrier.database),
            **agent_operator.commands(self._operated()),
        }

    def streams(self) -> Mapping[str, Stream]:
        """The same, of those that go on."""
        calls = office_calling.streams(self._office_calls, self._config.server_name)
        return {**agent_operator.streams(self._operated()), **calls}

    async def start(self) -> None:
        await self.centre.start()
        if self._offices is None:
            here = self.centre.table.table.agents_of(self._config.server_name)
            gone = all_gone(here.values(), now_ms())
            if gone:
                await self.centre.table.take(gone)
        if self._for_people is not None:
            self._for_people.move_in(
                self.centre.table,
                self._ghosts,
                name_of=self._agents.display_name,
                is_of_agents=lambda room_id: room_id in self.rooms().values(),
            )

    async def close(self) -> None:
        await self.centre.close()

    # -- whoever carries it asks --

    def is_agent(self, address: AgentAddress) -> bool:
        return self.centre.table.agent(address) is not None

    def has_room(self, namespace: str) -> bool:
        return self._people is not None and namespace in self._config.agent_federation.namespaces

    async def provide_room(self, namespace: str) -> bool:
        return self._people is not None and await self._people.rooms.provide(namespace)

    async def has_office(self, localpart: str) -> bool:
        return self._offices is not None and await self._offices.rooms.has(localpart)

    async def make_office(self, alias: str, asked_by: str) -> bool:
        return self._offices is not None and await self._offices.rooms.make(alias, asked_by, monotonic())

    async def lead_to_office(self, localpart: str) -> bool:
        return self._offices is not None and await self._offices.rooms.lead(localpart)

    def rooms(self) -> Mapping[str, str]:
        return {} if self._people is None else self._people.rooms.all()

    def alias(self, namespace: str) -> str:
        return f"#{alias_localpart(namespace)}:{self._names.domain}"

    def give_up_room(self, namespace: str) -> None:
        if self._people is not None:
            self._people.rooms.give_up(namespace)

    @property
    def names(self) -> GhostNames:
        return self._names

    # -- parts --

    def _operated(self) -> Parts:
        return Parts(
            node_id=self._config.server_name,
            database=self._carrier.database,
            routes=self.centre.table,
            desk=self.centre.desk,
            local=self._agents,
            replies=self.replies,
            feed=self._feed,
            configured={agent.id for agent in self._config.agents},
            now_ms=now_ms,
            for_people=None
            if self._for_people is None
            else ForPeople(self._for_people.speaks, rights(self._config.people, self._config.permissions)),
        )

    def _make_agents(self, table: RoutingTable, duty: AgentDuty) -> LocalAgents:
        self._agents = AgentsOfThisNode(
            self._config.agents,
            table,
            duty,
            directory=self._config.data_dir / AGENT_DIRECTORY,
            environment=os.environ,
            now_ms=now_ms,
            monotonic=monotonic,
            limits=attached_limits(self._config.agent_federation),
            kept_for=reserved if self._config.offices.enabled else for_anybody,
        )
        return self._agents

    def _make_connectors(self, table: RoutingTable, agents: LocalAgents) -> Sequence[Connector]:
        ghosts = self._ghosts = Ghosts(
            self._carrier.side,
            self._carrier.database,
            table,
            names=self._names,
            name_of=self._agents.display_name,
            report=self._observer.problem,
            monotonic=monotonic,
        )
        connectors: list[Connector] = [
            CisConnector(
                CisParts(
                    side=self._carrier.side,
                    database=self._carrier.database,
                    routes=table,
                    ghosts=ghosts,
                    settings=self._settings,
                    names=self._names,
                    observer=self._observer,
                    namespaces_of=agents.namespaces,
                    key=self._key,
                    version=self._version,
                    now_ms=now_ms,
                    follow_peers=self._peers.subscribe,
                    is_spoken_with=self._carrier.admits,
                )
            )
        ]
        if self._config.offices.enabled:
            self._offices = self._make_offices(table, ghosts)
            connectors.append(self._offices)
        if self._config.people.enabled:
            self._people = self._make_people(table, agents, ghosts)
            connectors.append(self._people)
        return connectors

    def _make_offices(self, table: RoutingTable, ghosts: Ghosts) -> OfficesConnector:
        settings = office_settings(self._config.offices, broker_password(self._config))
        offices = OfficesConnector(
            settings,
            self.office_tokens,
            RoomParts(
                side=self._carrier.side,
                database=self._carrier.database,
                ghosts=ghosts,
                settings=self._people_settings(),
                now_ms=now_ms,
                report=self._observer.problem,
                sealing=Sealing(self._key),
                nodes=settings.nodes,
            ),
            table,
            report=self._observer.problem,
        )
        offices.server.ignored_cancel = OfficeAudit(self._carrier.audit, now_ms=now_ms).ignored_cancel
        return offices

    def _office_members(self) -> Sequence[Member]:
        return () if self._offices is None else self._offices.server.everybody()

    def _office_calls(self) -> DirectCalls | None:
        return None if self._offices is None else self._offices.reaching.calls

    def _make_people(self, table: RoutingTable, agents: LocalAgents, ghosts: Ghosts) -> People:
        offices = self._offices

        def namespaces_of(address: AgentAddress) -> Sequence[str]:
            agent = table.agent(address)
            is_member = agent is not None and agent.connector == OFFICES
            if is_member and (offices is None or not offices.reaching.reads_tasks(address)):
                return ()  # who reads no tasks has nothing to do where people give them
            said: Collection[str] = () if agent is None else agents.namespaces(agent)
            return self._settings.known_namespaces(said)

        return People(
            self._carrier.side,
            self._carrier.database,
            table,
            self._people_settings(),
            ghosts,
            now_ms=now_ms,
            monotonic=monotonic,
            namespaces_of=namespaces_of,
            is_foreign=lambda room_id: parse_room_id(room_id) is not None,
            speaks=None if self._for_people is None else self._for_people.speaks,
            is_for_others=nobody_elses if offices is None else offices.reaching.ordering.is_order,
            report=self._observer.problem,
        )

    def _people_settings(self) -> PeopleSettings:
        config = self._config
        return people_settings(
            self._names, config.people, config.permissions, config.agent_federation.namespaces
        )

    def _has_puppet(self, address: AgentAddress) -> bool:
        access = self._settings.peers.get(address.node_id)
        return access is not None and not access.is_homeserver

    def _count(self) -> Mapping[str, int]:
        table, here = self.centre.table.table, self._config.server_name
        on_others = sum(table.count(node.node_id) for node in table.nodes() if node.node_id != here)
        return {"here": table.count(here), "elsewhere": on_others}


def attached_limits(federation: AgentFederation) -> AttachedLimits:
    """A program that is attached has to be heard from as often as a node: who is silent is looked for in both
    alike."""
    return AttachedLimits(heartbeat=federation.heartbeat_interval_secs, silence=federation.agent_timeout_secs)
