"""The port that the homeserver of a guest speaks to.

It answers before the node works: the homeserver is asked to reach it first of all, and what it sends
meanwhile it is to send again.
"""

import socket
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final

from appservice.namespaces import AgentRoom
from appservice.registration import Registration, Wanted
from appservice.transaction import Transaction
from appservice.wire.app import Serve, make_listener, nothing_else
from appservice.wire.services import AppServices, Inhabitants, TakesIn
from bridge.config_appservice import AppService
from federation.errors import MatrixError
from federation.wire.bind import Bind, BoundAddress, bind
from federation.wire.listener import Listener
from federation.wire.observer import Observer

CLOSING: Final = 5.0
"""Seconds for what is under way when it ends."""
MOST_PINGS: Final = 16


class GuestPort:
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
        self._registration = registration
        self._wanted = wanted
        self._observer = observer
        self._is_ready = is_ready
        self._serve_besides = serve_besides
        self._bound: list[socket.socket] = []
        self._listener: Listener | None = None
        self._pings: deque[str | None] = deque(maxlen=MOST_PINGS)
        self._doorway = _Doorway(self._pings.append)
        self._pinged: Callable[[str | None], None] | None = None
        self._came_by: Callable[[Hashable], None] = lambda connection: None

    def bind(self) -> None:
        """LocalError where somebody else has it."""
        self._bound = bind(self._binds(), self._section.port)

    async def start(self) -> None:
        services = AppServices(
            self._registration.secrets.hs_token,
            self._wanted.namespaces,
            self._doorway,
            self._doorway,
            self._note_ping,
            self._is_ready,
            self._note_connection,
        )
        self._listener = make_listener(
            services,
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
        intake: TakesIn,
        pinged: Callable[[str | None], None],
        came_by: Callable[[Hashable], None] = lambda connection: None,
    ) -> bool:
        """From now on what the homeserver sends is taken in. Whether it was sent away before, and may not
        come again for a while."""
        self._pinged, self._came_by = pinged, came_by
        self._doorway.intake = intake
        return self._doorway.has_refused

    def move_in(self, inhabitants: Inhabitants) -> None:
        """From now on it is answered who and what there is."""
        self._doorway.inhabitants = inhabitants

    def _note_connection(self, connection: Hashable) -> None:
        self._came_by(connection)

    def _note_ping(self, transaction_id: str | None) -> None:
        if self._pinged is None:
            # Who asked for it looks here when the homeserver says that it has brought it.
            self._pings.append(transaction_id)
        else:
            self._pinged(transaction_id)

    def _binds(self) -> list[Bind]:
        return [Bind(self._section.host)]


class _Doorway:
    """Satisfies `TakesIn` and `Inhabitants`."""

    def __init__(self, note_room: Callable[[str], None]) -> None:
        self._note_room = note_room
        self.intake: TakesIn | None = None
        self.inhabitants: Inhabitants | None = None
        self.has_refused = False

    async def take_in(self, transaction_id: str, transaction: Transaction) -> bool:
        if self.intake is None:
            self.has_refused = True
            raise _not_yet()
        return await self.intake.take_in(transaction_id, transaction)

    async def provide_agent(self, agent_id: str, node_id: str) -> bool:
        return await self._asked().provide_agent(agent_id, node_id)

    async def provide_room(self, room: AgentRoom) -> bool:
        if self.inhabitants is None:
            self._note_room(room.namespace)
        return await self._asked().provide_room(room)

    async def knows_agent(self, agent_id: str, node_id: str) -> bool:
        return await self._asked().knows_agent(agent_id, node_id)

    async def knows_room(self, room: AgentRoom) -> bool:
        return await self._asked().knows_room(room)

    def _asked(self) -> Inhabitants:
        if self.inhabitants is None:
            raise _not_yet()
        return self.inhabitants


def _not_yet() -> MatrixError:
    return MatrixError("M_UNKNOWN", "This node does not work yet: come again.", 503)
