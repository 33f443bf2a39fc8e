"""The port for the homeserver's requests to an attached node.

It listens before the node has started: the homeserver is asked for a ping first, and has to repeat what it
sends meanwhile.
"""

import socket
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

from appservice.appservice import MonitoredIntake
from appservice.http.app import AddRoutes, make_listener, no_more_routes
from appservice.http.services import AgentQueries, EndpointServices
from appservice.registration.registration import Registration, RegistrationSettings
from bridge.config.appservice import AppService
from federation.http.server.listener import Bind, BoundAddress, Listener, bind
from federation.http.server.observer import Observer

CLOSING: Final = 5.0
"""Seconds for requests in progress when the port closes."""
MAX_PINGS: Final = 16


class AppservicePort:
    """Bound, started, given its services, and closed at the end in any state."""

    def __init__(
        self,
        section: AppService,
        registration: Registration,
        wanted: RegistrationSettings,
        observer: Observer,
        *,
        is_ready: Callable[[], bool] = lambda: False,
        add_routes: AddRoutes = no_more_routes,
    ) -> None:
        self._section = section
        self._observer = observer
        self._serve_besides = add_routes
        self._bound: list[socket.socket] = []
        self._listener: Listener | None = None
        self._pings: deque[str | None] = deque(maxlen=MAX_PINGS)
        # Until the port has its services, pings and queries are recorded here for `has_received`.
        self._services = EndpointServices(
            registration.secrets.hs_token,
            wanted.namespaces,
            ping_received=self._pings.append,
            is_ready=is_ready,
            room_queried=self._pings.append,
        )

    def bind(self) -> None:
        """LocalError if another process has the port."""
        self._bound = bind(self._binds(), self._section.port)

    async def start(self) -> None:
        self._listener = make_listener(
            self._services,
            self._binds(),
            self._section.port,
            self._observer,
            listening=self._bound,
            add_routes=self._serve_besides,
        )
        await self._listener.start()

    async def close(self) -> None:
        if self._listener is not None:
            await self._listener.close(CLOSING)
        for bound in self._bound:
            bound.close()

    @property
    def addresses(self) -> tuple[BoundAddress, ...]:
        return () if self._listener is None else self._listener.addresses

    def has_received(self, transaction_id: str) -> bool:
        """Whether this ping has arrived, or a query for the room with this name. Only used before the port
        has its services."""
        return transaction_id in self._pings

    def serve_transactions(
        self,
        intake: MonitoredIntake,
        ping_received: Callable[[str | None], None],
        connection_used: Callable[[Hashable], None] = lambda connection: None,
    ) -> bool:
        """From now on transactions are received. Return whether the homeserver was refused before and may not
        retry for a while."""
        self._services.ping_received, self._services.connection_used = ping_received, connection_used
        self._services.intake = intake
        return self._services.has_refused

    def serve_queries(self, queries: AgentQueries) -> None:
        """From now on queries for agents and rooms are answered."""
        self._services.queries = queries

    def _binds(self) -> list[Bind]:
        return [Bind(self._section.host)]
