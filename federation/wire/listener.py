"""The listener of the federation port: TLS and, for those allowed, plain HTTP on one port."""

import asyncio
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from aiohttp import web

from federation.admission import LOOPBACK, Network, Rules
from federation.wire.accept import accept
from federation.wire.bind import Bind, BoundAddress, bind, bound_address
from federation.wire.entrance import Entrance
from federation.wire.limits import Limits
from federation.wire.middleware import stand_round
from federation.wire.observer import Observer
from federation.wire.tls import Tls

# How long requests that were cancelled may take to notice.
CANCEL_TIMEOUT = 2.0


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    binds: Sequence[Bind]
    port: int
    plain_networks: Collection[Network] = LOOPBACK
    limits: Limits = field(default_factory=Limits)


class Listener:
    """`start()` once, `close()` once. `listening`: sockets that were bound before; they are closed here."""

    def __init__(
        self,
        app: web.Application,
        settings: ListenerSettings,
        tls: Tls | None,
        observer: Observer,
        *,
        listening: Sequence[socket.socket] = (),
    ) -> None:
        """Without `tls` (a proxy in front ends it) the port speaks plain HTTP only."""
        self._app = app
        self._settings = settings
        self._tls = tls
        self._observer = observer
        self._listening = list(listening)
        self._accepting: list[asyncio.Task[None]] = []
        self._entrance: Entrance | None = None
        self.addresses: tuple[BoundAddress, ...] = ()

    async def start(self) -> tuple[BoundAddress, ...]:
        """Bind every address, then serve them all. Raises LocalError, and then nothing is bound."""
        settings = self._settings
        self._listening = self._listening or bind(settings.binds, settings.port)
        self.addresses = tuple(bound_address(listening) for listening in self._listening)
        try:
            server = await self._make_server()
        except BaseException:
            self._close_listening()
            raise
        rules = Rules(settings.plain_networks, offers_tls=self._tls is not None)
        self._entrance = Entrance(server, rules, settings.limits, self._tls, self._observer)
        self._accepting = [
            asyncio.create_task(accept(listening, self._entrance.take, self._observer))
            for listening in self._listening
        ]
        return self.addresses

    async def close(self, timeout: float) -> None:  # noqa: ASYNC109 - it ends what is under way, not the wait
        """Accept nothing more, let requests under way finish for `timeout` seconds, then cancel them."""
        if self._entrance is None:
            return
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        self._close_listening()
        await self._entrance.close()
        for connection in list(self._entrance.connections):
            connection.stop()
        try:
            if not await self._finish_requests(timeout):
                await self._cancel_requests()
        finally:
            await self._app.cleanup()
            self._entrance = None

    async def _make_server(self) -> web.Server:
        runner = web.AppRunner(self._app)
        await runner.setup()
        server = runner.server
        assert server is not None, "setup() makes one"
        stand_round(server, self._settings.limits, self._observer, self._required)
        return server

    def _required(self) -> Collection[str]:
        return self._tls.current.required if self._tls is not None else ()

    def _close_listening(self) -> None:
        for listening in self._listening:
            listening.close()
        self._listening = []

    async def _finish_requests(self, patience: float) -> bool:
        """Whether all connections ended in that time."""
        try:
            async with asyncio.timeout(patience):
                await self._announce()
                await self._emptied()
        except TimeoutError:
            return False
        return True

    async def _announce(self) -> None:
        """Handlers that would go on for ever, such as WebSockets, end themselves here."""
        try:
            await self._app.shutdown()
        except Exception as error:
            self._observer.problem("Something failed when it was told that the node stops.", error)

    async def _emptied(self) -> None:
        assert self._entrance is not None, "it is there from start() until close()"
        await self._entrance.is_empty.wait()

    async def _cancel_requests(self) -> None:
        assert self._entrance is not None, "it is there from start() until close()"
        connections = list(self._entrance.connections)
        tasks = [connection.task for connection in connections if connection.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            _, unwilling = await asyncio.wait(tasks, timeout=CANCEL_TIMEOUT)
            if unwilling:
                self._observer.problem("Some requests go on although they were cancelled.", None)
        for connection in connections:
            connection.abort()
        try:
            async with asyncio.timeout(CANCEL_TIMEOUT):
                await self._emptied()
        except TimeoutError:
            self._observer.problem("Some connections could not be ended.", None)
