"""The connector for offices: creates and connects its parts, and disconnects clients whose tokens have
ended."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from aiohttp import web

from bridge.agents.address import AgentAddress
from bridge.agents.agent import Agent
from bridge.agents.routing_table import RoutingTable
from bridge.config.files import read_secret
from bridge.connectors.interface import Connector, NodeParts, PortalRoom
from bridge.connectors.offices import control
from bridge.connectors.offices.calls.approvals import CallApprovals
from bridge.connectors.offices.calls.gateway import OfficeGateway
from bridge.connectors.offices.calls.member_agents import unregister_all, why_reserved
from bridge.connectors.offices.cluster.broker import Broker
from bridge.connectors.offices.cluster.events import ClusterEvents
from bridge.connectors.offices.cluster.links import create_link
from bridge.connectors.offices.cluster.members import ClusterMembers
from bridge.connectors.offices.config import Offices, office_settings, offices_of
from bridge.connectors.offices.federated.encryption import NodeCipher
from bridge.connectors.offices.federated.shared_offices import SharedOffices
from bridge.connectors.offices.rooms.call_log import OfficeRecords
from bridge.connectors.offices.rooms.rooms import OfficeRooms, RoomParts, portal_of
from bridge.connectors.offices.server.server import SmcpServer
from bridge.connectors.offices.settings import NAME, OfficeSettings
from bridge.connectors.offices.tokens import OfficeTokens
from bridge.control.socket import Command
from bridge.control.stream import Stream
from bridge.observability.report import Report
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.service import TaskService
from federation.events.room_event import RoomEvent
from federation.peers import audit
from federation.peers.audit import AuditEntry, AuditOutcome, Direction, Identifiers
from storage.concurrency import BackgroundTasks
from storage.errors import LocalError

CANCEL: Final = "office_cancel"
_REASON: Final = "This connection has no call with this req_id in flight."


def ignored_cancel(owner: str, req_id: str, now_ms: int) -> AuditEntry:
    """An audit entry: "a stranger's cancel is ignored and audited." `owner` is the owner of the token."""
    named = Identifiers(None, None, audit.truncate(req_id))
    return AuditEntry(now_ms, audit.truncate(owner), Direction.IN, CANCEL, AuditOutcome.REFUSED, named, _REASON)


TOKEN_CHECK_INTERVAL: Final = 10.0
"""Seconds until a token that has expired, or that another process has revoked, is noticed."""

REVOKED: Final = "revoked"
"""A message to the other processes: a token was revoked. They read from the database which one."""
SERVING_ATTEMPTS: Final = 3
"""One per second. Postgres may take a moment to notice that a killed process has ended."""
NOT_CONNECTED: Final = (
    "Another process of this node also serves offices, and the two are not connected: configure the same"
    " broker in [offices] of both."
)


def connect(parts: NodeParts) -> Connector:
    section = offices_of(parts.config)
    tokens = OfficeTokens(parts.database, parts.now_ms)
    if not section.enabled:
        return DisabledOfficesConnector(parts, tokens)
    settings = office_settings(section, broker_password(section))
    connector = OfficesConnector(
        settings,
        tokens,
        RoomParts(
            backend=parts.backend,
            database=parts.database,
            ghosts=parts.ghosts,
            settings=parts.people,
            now_ms=parts.now_ms,
            report=parts.report,
            cipher=NodeCipher(parts.key),
            nodes=settings.nodes,
        ),
        parts.routes,
        report=parts.report,
        monotonic=parts.monotonic,
    )
    connector.server.on_ignored_cancel = lambda owner, req_id: parts.audit.record(
        ignored_cancel(owner, req_id, parts.now_ms())
    )
    return connector


def broker_password(section: Offices) -> str | None:
    """Raises `LocalError` if the file cannot be read."""
    file = section.broker_password_file
    return None if file is None else read_secret(file, "password of the broker")


class DisabledOfficesConnector(Connector):
    """For a node that serves no offices: operators can still list recorded calls and manage tokens and
    rooms."""

    name = NAME

    def __init__(self, parts: NodeParts, tokens: OfficeTokens) -> None:
        self._parts = parts
        self._tokens = tokens

    async def start(self) -> None:
        """Unregister the members that an earlier process has left behind."""
        routes = self._parts.routes
        local = routes.table.agents_of(self._parts.config.server_name)
        updates = unregister_all(local.values(), self._parts.now_ms())
        if updates:
            await routes.update(updates)

    async def close(self) -> None:
        """There is nothing to close."""

    def accepts_chat_tasks(self, agent: Agent) -> bool:
        return False

    async def portal(self, room_id: str) -> PortalRoom | None:
        return await portal_of(self._parts.backend, self._parts.names, room_id)

    def commands(self) -> Mapping[str, Command]:
        return control.commands(tuple, self._tokens, self._parts.database)

    def streams(self) -> Mapping[str, Stream]:
        return control.streams(None, self._parts.config.server_name)


class OfficesConnector(Connector):
    """The offices of this node, and those of other nodes that its members have joined."""

    name = NAME
    runs_tasks = True

    def __init__(
        self,
        settings: OfficeSettings,
        tokens: OfficeTokens,
        parts: RoomParts,
        routes: RoutingTable,
        *,
        report: Report,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._parts = parts
        self._tokens = tokens
        self._monotonic = monotonic
        self._report = report
        self._revoked: set[str] = set()
        self._check_requested = asyncio.Event()
        self._background = BackgroundTasks()
        self._records = OfficeRecords(parts, settings.mask, report=report, archive_after=settings.archive_after)
        self._approvals = CallApprovals(parts, settings, self._cancel_call)
        self.rooms = OfficeRooms(parts)
        self._shared = None if parts.cipher is None else SharedOffices(parts, parts.cipher, self._records)
        self._broker: Broker | None = None
        self._cluster: ClusterMembers | None = None
        if settings.broker is not None:
            self._broker = Broker(create_link(settings.broker, parts.settings.node_id), report)
            self._cluster = ClusterMembers(parts.database, self._records, self._broker, report=report)
        self.server = SmcpServer(
            settings,
            tokens.check,
            self._records,
            self._approvals,
            report=report,
            local_names={parts.settings.node_id, parts.settings.names.domain},
            shared=self._shared,
            broker=self._broker,
            cluster=self._cluster,
        )
        if self._shared is not None:
            self._shared.use_server(self.server)
        if self._cluster is not None:
            self._cluster.use_server(self.server)
        if self._shared is not None and self._cluster is not None:
            self._cluster.on_remote_members = self._shared.enter_soon
        self._cluster_events: ClusterEvents | None = None
        if self._broker is not None:
            self._cluster_events = ClusterEvents(
                self._broker, self._records, self._approvals, self._shared, report=report
            )
        if self._broker is not None:
            self._broker.subscribe(REVOKED, lambda content: self._check_requested.set())
        self.gateway = OfficeGateway(parts, routes, self.server, self._records, self._shared)
        self.delivery = self.gateway.tasks
        tokens.on_revoked(self._token_revoked)

    # -- members as agents of this node --

    def use_task_service(self, tasks: TaskService) -> None:
        self.gateway.use_task_service(tasks)

    async def stop(self) -> None:
        await self.gateway.stop_tasks()

    def agent_settings(self, agent: Agent) -> AgentSettings | None:
        return self.gateway.tasks.settings(agent)

    def accepts_chat_tasks(self, agent: Agent) -> bool:
        return self.gateway.reads_tasks(agent.address)

    def reserved_for(self, address: AgentAddress) -> str | None:
        return why_reserved(address)

    def removal_error(self, agent: Agent) -> LocalError | None:
        return LocalError(
            f"{agent.agent_id} is a member of an office and remains an agent while it is connected.",
            "`palaver offices token revoke` ends its connection.",
        )

    # -- rooms --

    async def has_alias(self, localpart: str) -> bool:
        return await self.rooms.has_alias(localpart)

    async def ensure_alias(self, localpart: str) -> bool:
        return await self.rooms.ensure_alias(localpart)

    async def create_for_alias(self, alias: str, requester: str) -> bool:
        return await self.rooms.create_for_alias(alias, requester, self._monotonic())

    async def portal(self, room_id: str) -> PortalRoom | None:
        return await portal_of(self._parts.backend, self._parts.settings.names, room_id)

    async def handles_message(self, event: RoomEvent) -> bool:
        return await self.gateway.chat_calls.is_command(event)

    # -- operators --

    def commands(self) -> Mapping[str, Command]:
        return control.commands(self.server.all_members, self._tokens, self._parts.database)

    def streams(self) -> Mapping[str, Stream]:
        return control.streams(self.gateway.calls, self._parts.settings.node_id)

    # -- start and close --

    def routes(self) -> Iterable[web.RouteDef]:
        return self.server.routes()

    async def start(self) -> None:
        await self._records.start()
        self._background.spawn("check for other processes", self._check_other_processes())
        if self._broker is not None and self._cluster is not None:
            await self._broker.start()
            await self._cluster.start()
        self._approvals.start()
        if self._shared is not None:
            self._shared.start()
        await self.server.start()
        await self.gateway.start()
        self._background.supervise("tokens for offices", self._check_tokens)

    async def close(self) -> None:
        await self._background.close()
        await self.gateway.chat_calls.stop_reading()
        await self.server.close()
        if self._shared is not None:
            await self._shared.close()
        await self.gateway.close()
        await self._approvals.close()
        if self._broker is not None and self._cluster is not None and self._cluster_events is not None:
            await self._cluster.close()
            await self._cluster_events.close()
            await self._broker.close()
        await self._records.close()

    async def _cancel_call(self, call_id: str) -> bool:
        return await self.server.cancel_recorded_call(call_id)

    async def _check_other_processes(self) -> None:
        """Report if another process serves offices and the two are not connected by a broker."""
        process, with_others = self._records.process, self._broker is not None
        for _ in range(SERVING_ATTEMPTS):
            if await process.claim_serving(with_others=with_others):
                return
            await asyncio.sleep(1)
        self._report(NOT_CONNECTED, None)

    # -- expired and revoked tokens --

    def _token_revoked(self, token_id: str) -> None:
        self._revoked.add(token_id)
        self._check_requested.set()
        if self._broker is not None:
            self._broker.publish(REVOKED, {}, retry=True)

    async def _check_tokens(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(TOKEN_CHECK_INTERVAL):
                    await self._check_requested.wait()
            self._check_requested.clear()
            revoked, self._revoked = self._revoked, set()
            try:
                valid = await self._tokens.valid_ids(self.server.token_ids())
            except Exception as error:
                # The loop must go on, and tokens revoked by this process must end their connections.
                self._report("Failed to check the tokens of connected Agents and Computers.", error)
                valid = self.server.token_ids() - revoked
            await self.server.disconnect_except(valid - revoked)
