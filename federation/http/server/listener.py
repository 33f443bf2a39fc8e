"""The listener of the federation port: TLS and, for those allowed, plain HTTP on one port.

The port: all its addresses bound before any is served, or a sentence that says why not.
"""

import asyncio
import errno
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

from aiohttp import web

from federation.http.middleware import stand_round
from federation.http.server.accept import accept
from federation.http.server.capacity import Limits
from federation.http.server.entrance import Entrance
from federation.http.server.observer import Observer
from federation.http.server.tls import Tls
from federation.matrix.networks import LOOPBACK, Network, Rules
from storage.concurrency import BackgroundTasks
from storage.errors import LocalError

BACKLOG = 1024
# Port 0 lets the system pick for the first address; the others may find that port taken.
PICKS = 32
# What a machine without IPv6, or with IPv6 switched off, says to `::1`.
ABSENT = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT})


@dataclass(frozen=True, slots=True)
class Bind:
    """An IP address to listen on. `optional`: passed over where this machine does not have it.

    Addresses that a person wrote down are not optional; defaults such as `::1` are.
    """

    host: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class BoundAddress:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def bind(binds: Sequence[Bind], port: int) -> list[socket.socket]:
    """Listening sockets, the same port on every address. Who connects waits until they are served."""
    for _ in range(PICKS if port == 0 else 1):
        try:
            return _bind_all(binds, port)
        except _PickAgain:
            continue
    raise LocalError(
        f"No port was found that is free on all of {', '.join(one.host for one in binds)}.",
        "Name a port that is.",
    )


def bound_address(listening: socket.socket) -> BoundAddress:
    host, port = listening.getsockname()[:2]
    return BoundAddress(host, port)


class _PickAgain(Exception):
    pass


def _bind_all(binds: Sequence[Bind], port: int) -> list[socket.socket]:
    bound: list[socket.socket] = []
    picked = port
    try:
        for one in binds:
            try:
                listening = _bind_one(one.host, picked)
            except OSError as error:
                if one.optional and error.errno in ABSENT:
                    continue
                if error.errno == errno.EADDRINUSE and port == 0 and bound:
                    raise _PickAgain from error
                raise _explain(error, one.host, picked) from error
            bound.append(listening)
            picked = bound_address(listening).port
    except BaseException:
        for listening in bound:
            listening.close()
        raise
    if not bound:
        raise LocalError(
            "None of the addresses to listen on exists on this machine.",
            "Name one that does, such as 127.0.0.1.",
        )
    return bound


def _bind_one(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = _resolve(host, port)
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setblocking(False)
        # A restart must not wait for the connections of the process before it to be forgotten.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # `::` and `0.0.0.0` are bound side by side; and an IPv4 peer keeps its IPv4 address.
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        # With SO_REUSEADDR, Linux says only here that somebody else listens already.
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def _resolve(
    host: str, port: int
) -> tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]:
    try:
        return socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise LocalError(
            f"“{host}” is not an IP address to listen on.",
            "Write an address such as 127.0.0.1, ::1, 0.0.0.0 or ::, without brackets.",
        ) from None


def _explain(error: OSError, host: str, port: int) -> LocalError:
    if error.errno == errno.EADDRINUSE:
        return LocalError(
            f"Port {port} on {host} is taken by another program, perhaps another Palaver or a CIS node.",
            f"Stop it (`ss -ltnp 'sport = :{port}'` names it), or set another port in the configuration.",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return LocalError(
            f"This user may not listen on port {port} of {host}.",
            "Set a port of 1024 or higher in the configuration, or give the program CAP_NET_BIND_SERVICE.",
        )
    if error.errno in ABSENT:
        return LocalError(
            f"This machine has no address {host}.",
            "Set one that it has (`ip address` lists them), or 0.0.0.0 and :: for all of them.",
        )
    return LocalError(
        f"Port {port} on {host} could not be opened: {error.strerror}.",
        "Set another address or port in the configuration.",
    )


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
        self._accepting = BackgroundTasks()
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
        for listening in self._listening:
            self._accepting.supervise(
                "accepting connections", partial(accept, listening, self._entrance.take, self._observer)
            )
        return self.addresses

    async def close(self, timeout: float) -> None:  # noqa: ASYNC109 - it ends what is under way, not the wait
        """Accept nothing more, let requests under way finish for `timeout` seconds, then cancel them."""
        if self._entrance is None:
            return
        await self._accepting.close()
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
