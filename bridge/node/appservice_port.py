"""The port that the homeserver of a guest speaks to.

It answers before the node works: the homeserver is asked to reach it first of all, and what it sends
meanwhile it is to send again.
"""

import socket
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

from appservice.appservice import WatchedIntake
from appservice.http.app import Serve, make_listener, nothing_else
from appservice.http.services import AgentsAndRooms, AppServices
from appservice.registration.registration import Registration, Wanted
from bridge.config.appservice import AppService
from federation.http.server.listener import Bind, BoundAddress, Listener, bind
from federation.http.server.observer import Observer

CLOSING: Final = 5.0
"""Seconds for what is under way when it ends."""
MOST_PINGS: Final = 16


class AppservicePort:
    """Bound, started, opened, and closed at the end whatever was done before."""

    def __init__(
        self,
        section: AppService,
        registration: Registration,
        wanted: Wanted,
        observer: Observer,
        *,
        is_ready: Callable[[], bool] = lambda: False,
        serve_besides: Serve = nothing_else,
    ) -> None:
        self._section = section
        self._observer = observer
        self._serve_besides = serve_besides
        self._bound: list[socket.socket] = []
        self._listener: Listener | None = None
        self._pings: deque[str | None] = deque(maxlen=MOST_PINGS)
        # Until the port is open, whoever asked for a ping looks among those that were brought.
        self._services = AppServices(
            registration.secrets.hs_token,
            wanted.namespaces,
            pinged=self._pings.append,
            is_ready=is_ready,
            room_asked=self._pings.append,
        )

    def bind(self) -> None:
        """LocalError where somebody else has it."""
        self._bound = bind(self._binds(), self._section.port)

    async def start(self) -> None:
        self._listener = make_listener(
            self._services,
            self._binds(),
            self._section.port,
            self._observer,
            listening=self._bound,
            serve_besides=self._serve_besides,
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

    def has_brought(self, transaction_id: str) -> bool:
        """Whether the homeserver has come with this ping, or has asked for the room of this name. Nobody asks
        once the port is open."""
        return transaction_id in self._pings

    def take_in(
        self,
        intake: WatchedIntake,
        pinged: Callable[[str | None], None],
        came_by: Callable[[Hashable], None] = lambda connection: None,
    ) -> bool:
        """From now on what the homeserver sends is taken in. Whether it was sent away before, and may not
        come again for a while."""
        self._services.pinged, self._services.came_by = pinged, came_by
        self._services.intake = intake
        return self._services.has_refused

    def move_in(self, queries: AgentsAndRooms) -> None:
        """From now on it is answered who and what there is."""
        self._services.queries = queries

    def _binds(self) -> list[Bind]:
        return [Bind(self._section.host)]
