"""A node that is a guest: another homeserver carries its rooms, and its agents are users there.

What a guest answers when its homeserver asks for an agent or a room that it does not know yet.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from aiohttp import web

from appservice.appservice import Appservice, open_appservice
from appservice.homeserver.client import open_session
from appservice.http.services import AgentsAndRooms
from appservice.local_users.local_users import AppserviceUsers
from appservice.registration.namespaces import AgentRoom
from appservice.registration.registration import Registration, differences
from appservice.registration.run_check import look_at_homeserver
from bridge.agents.address import AgentAddress
from bridge.config.appservice import wanted
from bridge.config.config import Config
from bridge.control import appservice as guest_commands
from bridge.control.socket import Command
from bridge.matrix.ghost import AppserviceGhostNames
from bridge.node.appservice_people import AppservicePeople
from bridge.node.appservice_port import AppservicePort
from bridge.node.assembly import NodeCore
from bridge.node.backend import THERE
from bridge.node.portals import PortalSigns
from bridge.node.registration import load
from bridge.observability.appservice_observer import FIGURES_EVERY, LoggedAppservice, show_figures
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
"""The kind of room that a node makes for people. Rooms of other kinds belong to connectors."""


class AppserviceQueries:
    """What `appservice.http.services.AgentsAndRooms` gets. `put_up` marks rooms as bridged, by
    namespace."""

    def __init__(self, node: NodeCore, put_up: Callable[[Mapping[str, str]], Awaitable[None]]) -> None:
        self._node = node
        self._put_up = put_up
        self._making: set[str] = set()

    def is_agent(self, agent_id: str, node_id: str) -> bool:
        address = AgentAddress.of(agent_id, node_id)
        return isinstance(address, AgentAddress) and self._node.is_agent(address)

    async def is_room(self, room: AgentRoom) -> bool:
        if room.kind != AGENTS:
            return await self._node.has_portal(_localpart(room))
        return self._node.has_room(room.namespace)

    async def make_room(self, room: AgentRoom) -> None:
        if room.kind != AGENTS:
            # The room is there, or it is not made because it is looked up. What may be missing is its name.
            await self._node.lead_to_portal(_localpart(room))
            return
        # To make a room the homeserver is asked where its alias leads, and asks us in its turn: whoever let
        # that wait for the room would wait for himself.
        if room.namespace in self._making:
            raise MatrixError("M_NOT_FOUND", "This room is only just being made.", 404)
        self._making.add(room.namespace)
        try:
            is_there = await self._node.provide_room(room.namespace)
        finally:
            self._making.discard(room.namespace)
        if not is_there:
            raise MatrixError("M_UNKNOWN", "This room could not be made.", 502)
        await self._put_up({room.namespace: self._node.rooms()[room.namespace]})


def _localpart(room: AgentRoom) -> str:
    """Of the alias of a connector's room."""
    return f"{room.kind}-{room.namespace}"


AGAIN: Final = 2.0
"""Seconds until a homeserver that is not there yet is asked again."""
PRUNED_EVERY: Final = 24 * 3600.0


class AppserviceBackend:
    """Satisfies `bridge.node.backend.NodeBackend`."""

    guest: Appservice

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
        assert config.appservice.homeserver is not None, "the configuration was checked"
        self._url = config.appservice.homeserver
        self._wanted = wanted(config.appservice, config.server_name, config.alias_kinds)
        self._metrics = metrics
        self._figures = AppserviceMetrics(metrics.registry)
        self._health = health
        self._now_ms = now_ms
        self._step = step
        self._observer = LoggedAppservice(self._figures, health, now_ms)
        self._stack = contextlib.AsyncExitStack()
        health.expect(HOMESERVER)
        self._people = AppservicePeople(
            config, self._wanted.namespaces, now_ms=now_ms, report=self._observer.problem
        )

    async def prepare(self) -> None:
        self._registration = self._load()
        self._people.prepare()
        self._port = AppservicePort(
            self._section,
            self._registration,
            self._wanted,
            ListenerObserver(self._metrics),
            is_ready=self._is_ready,
            serve_besides=self._people.serve,
        )
        self._stack.push_async_callback(self._port.close)
        self._port.bind()
        await self._port.start()
        await self._meet()

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
        self.guest = await stack.enter_async_context(
            open_appservice(
                self._url,
                self._registration,
                self._wanted,
                database,
                now_ms=self._now_ms,
                observer=self._observer,
            )
        )
        stack.push_async_callback(self._people.close)
        await self._people.open(self.guest)
        # Closed before the parts that it gives to.
        stack.push_async_callback(self._port.close)
        self.guest.watch.start()
        guest = self.guest
        if self._port.take_in(guest.intake, guest.watch.pinged, guest.missed.comes_by):
            # It would come again after a while of its own.
            self.guest.watch.ask_for_ping()
        background = BackgroundTasks()
        self._stack.push_async_callback(background.close)
        show = partial(show_figures, self.guest, self._figures)
        background.supervise("figures of the homeserver", show, every=FIGURES_EVERY)
        background.supervise("expired audit", self._prune, every=PRUNED_EVERY)

    async def node_started(self, node: NodeCore) -> None:
        guest, namespaces = self.guest, self._wanted.namespaces
        signs = PortalSigns(guest.rooms, AppserviceGhostNames(namespaces), self._observer.problem)
        queries = AppserviceQueries(node, signs.put_up)
        self._port.move_in(
            AgentsAndRooms(
                namespaces,
                guest.ghosts,
                is_agent=queries.is_agent,
                is_room=queries.is_room,
                make_room=queries.make_room,
            )
        )
        await signs.put_up(node.rooms())

    async def close(self) -> None:
        await self._stack.aclose()

    # -- what it is --

    @property
    def side(self) -> AppserviceUsers:
        return self.guest.rooms

    def names(self, has_puppet: Callable[[AgentAddress], bool]) -> AppserviceGhostNames:
        """Every agent is a user of the homeserver, wherever it works."""
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

    async def rooms_of_ours(self, after: str, limit: int) -> Sequence[tuple[str, int]]:
        async with self._database.transaction(readonly=True) as connection:
            return await list_rooms(connection, after, limit)

    async def ours_in(self, room_id: str, after: str, limit: int) -> Sequence[tuple[str, str]]:
        async with self._database.transaction(readonly=True) as connection:
            return await list_ghosts(connection, room_id, THERE, after, limit)

    def admits(self, server_name: str) -> bool:
        """A guest speaks as a Matrix server with nobody."""
        return False

    def make_app(self, node: Node, limits: Limits) -> web.Application:
        """A guest is no server to others. What the homeserver asks is answered on a port of its own."""
        return make_app(node, limits, endpoints=(health,))

    def commands(self) -> Mapping[str, Command]:
        return guest_commands.commands(self._wanted.namespaces.domain, self._audit, self._now_ms, self._peers)

    def reload(self) -> None:
        """The homeserver reads its copy of the registration at its start, so that a new one of ours would
        not be known."""

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
            "homeserver_is_there": self.guest.watch.is_there,
            "last_transaction": moment(self._observer.last_transaction_ms),
            "reader_lag": await self.guest.rooms.lags(),
        }

    # -- inside --

    def _load(self) -> Registration:
        registration = load(self._section.registration)
        found = differences(registration, self._wanted)
        if found:
            raise LocalError(
                f"The registration {self._section.registration} is not what the configuration wants."
                f" {' '.join(found)}",
                "Write it anew with `palaver registration`, let the homeserver read it and start it again.",
            )
        return registration

    def _is_ready(self) -> bool:
        return all(sentence is None for sentence in self._health.readiness().checks.values())

    async def _meet(self) -> None:
        """The homeserver knows us, gives us our names, and reaches us. One that is not there yet is waited
        for: it is being started, most likely, with us."""
        self._step("asking the homeserver")
        async with open_session() as session:
            while True:
                found = await look_at_homeserver(
                    session, self._url, self._registration, self._wanted, self._port.has_brought
                )
                if found is None:
                    break
                if not found.passes:
                    raise LocalError(found.sentence, "`palaver doctor` examines all of it once more.")
                self._step(f"waiting for the homeserver at {self._url}")
                self._observer.waited_for(found.sentence)
                await asyncio.sleep(AGAIN)
        self._observer.met()

    async def _prune(self) -> None:
        await self._audit.prune(self._config.federation.audit_days)
