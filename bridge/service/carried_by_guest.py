"""A node that is a guest: another homeserver carries its rooms, and its agents are users there."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from aiohttp import web

from appservice.registration import Registration, differences
from appservice.service.guest import Guest, open_guest
from appservice.service.guest_rooms import GuestRooms
from appservice.service.homeserver_check import look_at_homeserver
from appservice.service.homeserver_client import open_session
from appservice.service.inhabitants import AgentsAndRooms
from bridge.address import AgentAddress
from bridge.config import Config
from bridge.config_appservice import wanted
from bridge.ghost_names import GuestNames
from bridge.guest_metrics import GuestMetrics
from bridge.metrics import Metrics
from bridge.service import guest_commands
from bridge.service.agent_peers import AgentPeers
from bridge.service.control_socket import Command
from bridge.service.guest_figures import keep_figures
from bridge.service.guest_inhabitants import GuestInhabitants
from bridge.service.guest_observer import LoggedGuest
from bridge.service.guest_people import GuestPeople
from bridge.service.guest_port import GuestPort
from bridge.service.health import HOMESERVER, Health
from bridge.service.matrix_carrier import THERE, Inhabited
from bridge.service.observer import ListenerObserver
from bridge.service.portal_signs import PortalSigns
from bridge.service.registration_file import load
from bridge.time_text import moment
from federation.service.audit import AuditTrail
from federation.wire.app import make_app
from federation.wire.endpoints import health
from federation.wire.limits import Limits
from federation.wire.node import Node
from storage.database import Database
from storage.errors import LocalError
from storage.guest_figures import list_ghosts, list_rooms

AGAIN: Final = 2.0
"""Seconds until a homeserver that is not there yet is asked again."""
PRUNED_EVERY: Final = 24 * 3600.0


class CarriedByGuest:
    """Satisfies `bridge.service.matrix_carrier.Carrier`."""

    guest: Guest

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
        self._wanted = wanted(config.appservice, config.server_name, has_offices=config.offices.enabled)
        self._metrics = metrics
        self._figures = GuestMetrics(metrics.registry)
        self._health = health
        self._now_ms = now_ms
        self._step = step
        self._observer = LoggedGuest(self._figures, health, now_ms)
        self._stack = contextlib.AsyncExitStack()
        health.expect(HOMESERVER)
        self._people = GuestPeople(
            config, self._wanted.namespaces, now_ms=now_ms, report=self._observer.problem
        )

    async def prepare(self) -> None:
        self._registration = self._load()
        self._people.prepare()
        self._port = GuestPort(
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
            open_guest(
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
        self._background(keep_figures(self.guest, self._figures))
        self._background(self._keep_pruned())

    async def inhabit(self, node: Inhabited) -> None:
        guest, namespaces = self.guest, self._wanted.namespaces
        signs = PortalSigns(guest.rooms, GuestNames(namespaces), self._observer.problem)
        inhabitants = GuestInhabitants(node, signs.put_up)
        self._port.move_in(
            AgentsAndRooms(
                namespaces,
                guest.ghosts,
                is_agent=inhabitants.is_agent,
                is_room=inhabitants.is_room,
                make_room=inhabitants.make_room,
            )
        )
        await signs.put_up(node.rooms())

    async def close(self) -> None:
        await self._stack.aclose()

    # -- what it is --

    @property
    def side(self) -> GuestRooms:
        return self.guest.rooms

    def names(self, has_puppet: Callable[[AgentAddress], bool]) -> GuestNames:
        """Every agent is a user of the homeserver, wherever it works."""
        return GuestNames(self._wanted.namespaces)

    @property
    def database(self) -> Database:
        return self._database

    @property
    def audit(self) -> AuditTrail:
        return self._audit

    @property
    def now_ms(self) -> Callable[[], int]:
        return self._now_ms

    @property
    def for_people(self) -> GuestPeople:
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
        return guest_commands.commands(self._wanted.namespaces.domain, self, self._peers)

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

    def _background(self, work: Coroutine[Any, Any, None]) -> None:
        self._stack.push_async_callback(_end, asyncio.create_task(work))

    async def _keep_pruned(self) -> None:
        """Forget once a day what nobody asks for any more, beginning with the start."""
        while True:
            try:
                await self._audit.prune(self._config.federation.audit_days)
            except LocalError as problem:
                self._observer.problem("What is out of date could not be forgotten.", problem)
            await asyncio.sleep(PRUNED_EVERY)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
