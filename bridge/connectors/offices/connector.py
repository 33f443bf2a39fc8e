"""The connector of offices: the server, and an eye on tokens that end while somebody is connected."""

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
from bridge.connectors.offices.calls.approving import Approving
from bridge.connectors.offices.calls.gateway import Reaching
from bridge.connectors.offices.calls.member_agents import CONNECTOR, all_gone, reserved
from bridge.connectors.offices.cluster.broker import Broker
from bridge.connectors.offices.cluster.events import Passing
from bridge.connectors.offices.cluster.links import link_to
from bridge.connectors.offices.cluster.members import Companions
from bridge.connectors.offices.config import Offices, office_settings, offices_of
from bridge.connectors.offices.federated.sealing import Sealing
from bridge.connectors.offices.federated.shared_offices import SharedOffices
from bridge.connectors.offices.rooms.call_log import OfficeRecords
from bridge.connectors.offices.rooms.rooms import OfficeRooms, RoomParts, portal_of
from bridge.connectors.offices.server.server import SmcpServer
from bridge.connectors.offices.service_tokens import OfficeTokens
from bridge.connectors.offices.settings import OfficeSettings
from bridge.control.socket import Command
from bridge.control.stream import Stream
from bridge.observability.report import Report
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.service import TaskService
from federation.events.room_event import RoomEvent
from federation.peers import audit
from federation.peers.audit import Direction, Ending, Entry, Named
from storage.concurrency import BackgroundTasks
from storage.errors import LocalError

CANCEL: Final = "office_cancel"
_WHY: Final = "No call of this connection is under way by this number."


def ignored_cancel(owner: str, req_id: str, now_ms: int) -> Entry:
    """ "A stranger's cancel is ignored and audited." `owner` is whose the token is."""
    named = Named(None, None, audit.cut(req_id))
    return Entry(now_ms, audit.cut(owner), Direction.IN, CANCEL, Ending.REFUSED, named, _WHY)


NAME: Final = CONNECTOR
LOOKED_AT_EVERY: Final = 10.0
"""Seconds. A token that another process has revoked, or whose time is over, is noticed then."""

REVOKED: Final = "revoked"
"""Some token; which, the database says."""
OTHERS_LOOKED_FOR: Final = 3
"""Seconds."""
NOT_HEARD: Final = (
    "Another process of this node serves offices as well, and the two do not hear each other: name one broker"
    " in [offices] of both."
)


def connect(parts: NodeParts) -> Connector:
    section = offices_of(parts.config)
    tokens = OfficeTokens(parts.database, parts.now_ms)
    if not section.enabled:
        return NoOffices(parts, tokens)
    settings = office_settings(section, broker_password(section))
    connector = OfficesConnector(
        settings,
        tokens,
        RoomParts(
            side=parts.backend,
            database=parts.database,
            ghosts=parts.ghosts,
            settings=parts.people,
            now_ms=parts.now_ms,
            report=parts.report,
            sealing=Sealing(parts.key),
            nodes=settings.nodes,
        ),
        parts.routes,
        report=parts.report,
        monotonic=parts.monotonic,
    )
    connector.server.ignored_cancel = lambda owner, req_id: parts.audit.note(
        ignored_cancel(owner, req_id, parts.now_ms())
    )
    return connector


def broker_password(section: Offices) -> str | None:
    """LocalError when its file cannot be read."""
    file = section.broker_password_file
    return None if file is None else read_secret(file, "password of the broker")


class NoOffices(Connector):
    """Of a node that serves none: operators still see what was called, and look after tokens and rooms."""

    name = NAME

    def __init__(self, parts: NodeParts, tokens: OfficeTokens) -> None:
        self._parts = parts
        self._tokens = tokens

    async def start(self) -> None:
        """Nobody is in an office, whatever a process before this one has left."""
        routes = self._parts.routes
        here = routes.table.agents_of(self._parts.config.server_name)
        gone = all_gone(here.values(), self._parts.now_ms())
        if gone:
            await routes.update(gone)

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
    """The offices of a node, and those of others that its members are in."""

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
        self._look = asyncio.Event()
        self._background = BackgroundTasks()
        self._records = OfficeRecords(
            parts, settings.mask, report=report, archive_after=settings.archive_after
        )
        self._approving = Approving(parts, settings, self._stop_call)
        self.rooms = OfficeRooms(parts)
        self._shared = None if parts.sealing is None else SharedOffices(parts, parts.sealing, self._records)
        self._broker: Broker | None = None
        self._companions: Companions | None = None
        if settings.broker is not None:
            self._broker = Broker(link_to(settings.broker, parts.settings.node_id), report)
            self._companions = Companions(parts.database, self._records, self._broker, report=report)
        self.server = SmcpServer(
            settings,
            tokens.check,
            self._records,
            self._approving,
            report=report,
            own={parts.settings.node_id, parts.settings.names.domain},
            shared=self._shared,
            broker=self._broker,
            beside=self._companions,
        )
        if self._shared is not None:
            self._shared.use(self.server)
        if self._companions is not None:
            self._companions.use(self.server)
        if self._shared is not None and self._companions is not None:
            self._companions.others = self._shared.enter_soon
        self._passing: Passing | None = None
        if self._broker is not None:
            self._passing = Passing(self._broker, self._records, self._approving, self._shared, report=report)
        if self._broker is not None:
            self._broker.hear(REVOKED, lambda said: self._look.set())
        self.reaching = Reaching(parts, routes, self.server, self._records, self._shared)
        self.delivery = self.reaching.tasks
        tokens.on_revoked(self._revoke)

    # -- its members as agents of this node --

    def use_task_service(self, tasks: TaskService) -> None:
        self.reaching.use_task_service(tasks)

    async def stop(self) -> None:
        await self.reaching.stop_work()

    def agent_settings(self, agent: Agent) -> AgentSettings | None:
        return self.reaching.tasks.settings(agent)

    def accepts_chat_tasks(self, agent: Agent) -> bool:
        return self.reaching.reads_tasks(agent.address)

    def reserved_for(self, address: AgentAddress) -> str | None:
        return reserved(address)

    def removal_error(self, agent: Agent) -> LocalError | None:
        return LocalError(
            f"{agent.agent_id} is in an office, and is there as long as it is connected.",
            "`palaver offices token revoke` ends its connection.",
        )

    # -- its rooms --

    async def has_alias(self, localpart: str) -> bool:
        return await self.rooms.has(localpart)

    async def ensure_alias(self, localpart: str) -> bool:
        return await self.rooms.lead(localpart)

    async def create_for_alias(self, alias: str, requester: str) -> bool:
        return await self.rooms.make(alias, requester, self._monotonic())

    async def portal(self, room_id: str) -> PortalRoom | None:
        return await portal_of(self._parts.side, self._parts.settings.names, room_id)

    async def handles_message(self, event: RoomEvent) -> bool:
        return await self.reaching.ordering.is_order(event)

    # -- operators --

    def commands(self) -> Mapping[str, Command]:
        return control.commands(self.server.everybody, self._tokens, self._parts.database)

    def streams(self) -> Mapping[str, Stream]:
        return control.streams(self.reaching.calls, self._parts.settings.node_id)

    # -- its life --

    def routes(self) -> Iterable[web.RouteDef]:
        return self.server.routes()

    async def start(self) -> None:
        await self._records.start()
        self._background.spawn("look for other processes", self._look_for_others())
        if self._broker is not None and self._companions is not None:
            await self._broker.start()
            await self._companions.start()
        self._approving.start()
        if self._shared is not None:
            self._shared.start()
        await self.server.start()
        await self.reaching.start()
        self._background.supervise("tokens for offices", self._look_for_ever)

    async def close(self) -> None:
        await self._background.close()
        await self.reaching.ordering.hear_no_more()
        await self.server.close()
        if self._shared is not None:
            await self._shared.close()
        await self.reaching.close()
        await self._approving.close()
        if self._broker is not None and self._companions is not None and self._passing is not None:
            await self._companions.close()
            await self._passing.close()
            await self._broker.close()
        await self._records.close()

    async def _stop_call(self, call_id: str) -> bool:
        return await self.server.stop(call_id)

    async def _look_for_others(self) -> None:
        """Of a process that has just been killed Postgres may not know yet that it is gone."""
        process, with_others = self._records.process, self._broker is not None
        for _ in range(OTHERS_LOOKED_FOR):
            if await process.serves(with_others=with_others):
                return
            await asyncio.sleep(1)
        self._report(NOT_HEARD, None)

    # -- tokens that have ended --

    def _revoke(self, token_id: str) -> None:
        self._revoked.add(token_id)
        self._look.set()
        if self._broker is not None:
            self._broker.say(REVOKED, {}, keeps=True)

    async def _look_for_ever(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOKED_AT_EVERY):
                    await self._look.wait()
            self._look.clear()
            revoked, self._revoked = self._revoked, set()
            try:
                good = await self._tokens.still_good(self.server.token_ids())
            except Exception as error:
                # Whatever it is: the next look has to come, and what was revoked here is known.
                self._report("Whether tokens for offices still hold could not be looked up.", error)
                good = self.server.token_ids() - revoked
            await self.server.disconnect_others(good - revoked)
