"""A node that is attached to a homeserver as an application service: its rooms and users are on that
homeserver.

Also answers the homeserver's queries for agents and rooms that it does not know yet.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from aiohttp import web

from appservice.appservice import Appservice, open_appservice
from appservice.homeserver.client import open_session
from appservice.http.services import AgentQueries
from appservice.local_users.local_users import AppserviceUsers
from appservice.registration.namespaces import AgentRoom
from appservice.registration.registration import Registration, differences
from appservice.registration.run_check import find_homeserver_problem
from bridge.agents.address import AgentAddress
from bridge.config.appservice import wanted
from bridge.config.config import Config
from bridge.control import appservice as guest_commands
from bridge.control.socket import Command
from bridge.matrix.ghost import AppserviceGhostNames
from bridge.node.appservice_people import AppservicePeople
from bridge.node.appservice_port import AppservicePort
from bridge.node.assembly import NodeCore
from bridge.node.backend import PRESENT_MEMBERSHIPS
from bridge.node.portals import BridgeInfo
from bridge.node.registration import load
from bridge.observability.appservice_observer import GAUGE_INTERVAL, LoggedAppservice, update_gauges
from bridge.observability.health import HOMESERVER, Health
from bridge.observability.metrics import AppserviceMetrics, Metrics
from bridge.observability.observer import ListenerObserver
from bridge.peers.service import AgentPeers
from bridge.text.times import moment
from federation.http.app import make_app
from federation.http.endpoints import health
from federation.http.server.capacity import Limits
from federation.http.services import Node
from federation.matrix.errors import MatrixError
from federation.peers.audit_trail import AuditTrail
from storage.appservice.rooms import list_ghosts, list_rooms
from storage.concurrency import BackgroundTasks
from storage.database import Database
from storage.errors import LocalError

AGENTS: Final = "agents"
"""The kind of room that the node creates for people. Other kinds belong to connectors."""


class AppserviceQueries:
    """The decisions behind `appservice.http.services.AgentQueries`. `publish_bridge_info` marks rooms as
    bridged, by namespace."""

    def __init__(self, node: NodeCore, publish_bridge_info: Callable[[Mapping[str, str]], Awaitable[None]]) -> None:
        self._node = node
        self._publish_bridge_info = publish_bridge_info
        self._creating: set[str] = set()

    def is_agent(self, agent_id: str, node_id: str) -> bool:
        address = AgentAddress.of(agent_id, node_id)
        return isinstance(address, AgentAddress) and self._node.is_agent(address)

    async def is_room(self, room: AgentRoom) -> bool:
        if room.kind != AGENTS:
            return await self._node.has_portal(_localpart(room))
        return self._node.has_room(room.namespace)

    async def make_room(self, room: AgentRoom) -> None:
        if room.kind != AGENTS:
            # The room exists, or a lookup does not create it. Only its alias may be missing.
            await self._node.provide_portal(_localpart(room))
            return
        # While the room is being created, the homeserver resolves its alias and queries this node in turn:
        # waiting for the room here would be a deadlock.
        if room.namespace in self._creating:
            raise MatrixError("M_NOT_FOUND", "This room is being created.", 404)
        self._creating.add(room.namespace)
        try:
            is_available = await self._node.provide_room(room.namespace)
        finally:
            self._creating.discard(room.namespace)
        if not is_available:
            raise MatrixError("M_UNKNOWN", "Failed to create this room.", 502)
        await self._publish_bridge_info({room.namespace: self._node.rooms()[room.namespace]})


def _localpart(room: AgentRoom) -> str:
    """The alias localpart of a connector's room."""
    return f"{room.kind}-{room.namespace}"


RETRY_DELAY: Final = 2.0
"""Seconds until an unavailable homeserver is checked again."""
PRUNED_EVERY: Final = 24 * 3600.0


class AppserviceBackend:
    """Implements `bridge.node.backend.NodeBackend`."""

    appservice: Appservice

    def __init__(
        self,
        config: Config,
        *,
        metrics: Metrics,
        health: Health,
        now_ms: Callable[[], int],
        step: Callable[[str], None] = lambda what: None,
    ) -> None:
        self._config = config
        self._section = config.appservice
        assert config.appservice.homeserver is not None, "checked by the configuration"
        self._url = config.appservice.homeserver
        self._wanted = wanted(config.appservice, config.server_name, config.alias_kinds)
        self._metrics = metrics
        self._gauges = AppserviceMetrics(metrics.registry)
        self._health = health
        self._now_ms = now_ms
        self._step = step
        self._observer = LoggedAppservice(self._gauges, health, now_ms)
        self._stack = contextlib.AsyncExitStack()
        health.expect(HOMESERVER)
        self._people = AppservicePeople(config, self._wanted.namespaces, now_ms=now_ms, report=self._observer.problem)

    async def prepare(self) -> None:
        self._registration = self._load()
        self._people.prepare()
        self._port = AppservicePort(
            self._section,
            self._registration,
            self._wanted,
            ListenerObserver(self._metrics),
            is_ready=self._is_ready,
            add_routes=self._people.serve,
        )
        self._stack.push_async_callback(self._port.close)
        self._port.bind()
        await self._port.start()
        await self._connect()

    async def open(self, database: Database, peers: AgentPeers) -> None:
        self._peers = peers
        try:
            await self._open(database)
        except BaseException:
            await self.close()
            raise

    async def _open(self, database: Database) -> None:
        stack = self._stack
        self._audit = AuditTrail(database, now_ms=self._now_ms, report=self._observer.problem)
        self._audit.start()
        stack.push_async_callback(self._audit.close)
        self._database = database
        self.appservice = await stack.enter_async_context(
            open_appservice(
                self._url, self._registration, self._wanted, database, now_ms=self._now_ms, observer=self._observer
            )
        )
        stack.push_async_callback(self._people.close)
        await self._people.open(self.appservice)
        # Closed before the parts that it passes requests to.
        stack.push_async_callback(self._port.close)
        self.appservice.monitor.start()
        appservice = self.appservice
        if self._port.serve_transactions(
            appservice.intake, appservice.monitor.ping_received, appservice.missed_events.connection_used
        ):
            # The homeserver has been refused and would retry only after a while.
            self.appservice.monitor.request_ping()
        background = BackgroundTasks()
        self._stack.push_async_callback(background.close)
        show = partial(update_gauges, self.appservice, self._gauges)
        background.supervise("homeserver gauges", show, every=GAUGE_INTERVAL)
        background.supervise("expired audit", self._prune, every=PRUNED_EVERY)

    async def node_started(self, node: NodeCore) -> None:
        appservice, namespaces = self.appservice, self._wanted.namespaces
        bridge_info = BridgeInfo(appservice.local_users, AppserviceGhostNames(namespaces), self._observer.problem)
        queries = AppserviceQueries(node, bridge_info.publish)
        self._port.serve_queries(
            AgentQueries(
                namespaces,
                appservice.ghosts,
                is_agent=queries.is_agent,
                is_room=queries.is_room,
                make_room=queries.make_room,
            )
        )
        await bridge_info.publish(node.rooms())

    async def close(self) -> None:
        await self._stack.aclose()

    # -- properties --

    @property
    def side(self) -> AppserviceUsers:
        return self.appservice.local_users

    def names(self, has_puppet: Callable[[AgentAddress], bool]) -> AppserviceGhostNames:
        """Every agent is a user of the homeserver, whichever node it runs on."""
        return AppserviceGhostNames(self._wanted.namespaces)

    @property
    def database(self) -> Database:
        return self._database

    @property
    def audit(self) -> AuditTrail:
        return self._audit

    @property
    def for_people(self) -> AppservicePeople:
        return self._people

    async def rooms_with_ghosts(self, after: str, limit: int) -> Sequence[tuple[str, int]]:
        async with self._database.transaction(readonly=True) as connection:
            return await list_rooms(connection, after, limit)

    async def ghosts_in(self, room_id: str, after: str, limit: int) -> Sequence[tuple[str, str]]:
        async with self._database.transaction(readonly=True) as connection:
            return await list_ghosts(connection, room_id, PRESENT_MEMBERSHIPS, after, limit)

    def admits(self, server_name: str) -> bool:
        """An attached node does not federate as a Matrix server."""
        return False

    def make_app(self, node: Node, limits: Limits) -> web.Application:
        """An attached node is not a server for other homeservers. Its homeserver's requests have a port of
        their own."""
        return make_app(node, limits, endpoints=(health,))

    def commands(self) -> Mapping[str, Command]:
        return guest_commands.commands(self._wanted.namespaces.domain, self._audit, self._now_ms, self._peers)

    def reload(self) -> None:
        """Nothing to reload: the homeserver reads its copy of the registration only when it starts."""

    def summary(self) -> Mapping[str, Any]:
        namespaces = self._wanted.namespaces
        return {
            "guest_of": namespaces.domain,
            "homeserver": self._section.homeserver,
            "for_the_homeserver": [str(one) for one in self._port.addresses],
            "ghosts": f"@{namespaces.user_prefix}…:{namespaces.domain}",
        }

    async def status(self) -> Mapping[str, Any]:
        return {
            "homeserver_is_there": self.appservice.monitor.is_available,
            "last_transaction": moment(self._observer.last_transaction_ms),
            "reader_lag": await self.appservice.local_users.lags(),
        }

    # -- internals --

    def _load(self) -> Registration:
        registration = load(self._section.registration)
        found = differences(registration, self._wanted)
        if found:
            raise LocalError(
                f"The registration {self._section.registration} does not match the configuration. {' '.join(found)}",
                "Write it again with `palaver registration`, copy it to the homeserver and restart that.",
            )
        return registration

    def _is_ready(self) -> bool:
        return all(sentence is None for sentence in self._health.readiness().checks.values())

    async def _connect(self) -> None:
        """Check that the homeserver knows the registration, lets this node register users, and reaches it.
        Wait for a homeserver that is not available yet: most likely it is being started too."""
        self._step("checking the homeserver")
        async with open_session() as session:
            while True:
                found = await find_homeserver_problem(
                    session, self._url, self._registration, self._wanted, self._port.has_received
                )
                if found is None:
                    break
                if found.is_warning:
                    self._observer.warn(found.sentence)
                    break
                if not found.is_transient:
                    raise LocalError(found.sentence, "`palaver doctor` repeats all checks.")
                self._step(f"waiting for the homeserver at {self._url}")
                self._observer.waiting(found.sentence)
                await asyncio.sleep(RETRY_DELAY)
        self._observer.connected(was_pinged=found is None)

    async def _prune(self) -> None:
        await self._audit.prune(self._config.federation.audit_days)
