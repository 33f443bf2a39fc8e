"""The listener of the federation port: TLS and, for configured networks, plain HTTP on the same port.

All addresses are bound before any is served; otherwise a LocalError says why not.
"""

import asyncio
import errno
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

from aiohttp import web

from federation.http.middleware import wrap_server
from federation.http.server.accept import accept
from federation.http.server.capacity import Limits
from federation.http.server.connection_setup import ConnectionSetup
from federation.http.server.observer import Observer
from federation.http.server.tls import Tls
from federation.matrix.networks import LOOPBACK, AdmissionRules, Network
from storage.concurrency import BackgroundTasks
from storage.errors import LocalError

BACKLOG = 1024
# With port 0 the system chooses a port for the first address, which may be in use on the others.
PORT_ATTEMPTS = 32
# The errors for `::1` on a machine without IPv6 or with IPv6 disabled.
NO_SUCH_ADDRESS = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT})


@dataclass(frozen=True, slots=True)
class Bind:
    """An IP address to listen on. An `optional` one is skipped if this machine does not have it.

    Configured addresses are not optional; defaults such as `::1` are.
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
    """Return listening sockets with the same port on each address. Connections queue until they are
    served."""
    for _ in range(PORT_ATTEMPTS if port == 0 else 1):
        try:
            return _bind_all(binds, port)
        except _PortTaken:
            continue
    raise LocalError(
        f"No port is free on all of {', '.join(bind.host for bind in binds)}.", "Configure a port that is."
    )


def bound_address(listening: socket.socket) -> BoundAddress:
    host, port = listening.getsockname()[:2]
    return BoundAddress(host, port)


class _PortTaken(Exception):
    pass


def _bind_all(binds: Sequence[Bind], port: int) -> list[socket.socket]:
    bound: list[socket.socket] = []
    chosen = port
    try:
        for bind in binds:
            try:
                listening = _bind_one(bind.host, chosen)
            except OSError as error:
                if bind.optional and error.errno in NO_SUCH_ADDRESS:
                    continue
                if error.errno == errno.EADDRINUSE and port == 0 and bound:
                    raise _PortTaken from error
                raise _bind_error(error, bind.host, chosen) from error
            bound.append(listening)
            chosen = bound_address(listening).port
    except BaseException:
        for listening in bound:
            listening.close()
        raise
    if not bound:
        raise LocalError(
            "None of the addresses to listen on exists on this machine.", "Configure one that does, such as 127.0.0.1."
        )
    return bound


def _bind_one(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = _resolve(host, port)
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setblocking(False)
        # A restart must not wait for connections of the previous process in TIME_WAIT.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # So that `::` and `0.0.0.0` can both be bound, and IPv4 peers have IPv4 addresses.
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(address)
        # With SO_REUSEADDR, Linux reports only here that another process is listening.
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def _resolve(
    host: str, port: int
) -> tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_PASSIVE)[
            0
        ]
    except (OSError, UnicodeError):
        raise LocalError(
            f"“{host}” is not an IP address to listen on.",
            "Write an address such as 127.0.0.1, ::1, 0.0.0.0 or ::, without brackets.",
        ) from None


def _bind_error(error: OSError, host: str, port: int) -> LocalError:
    if error.errno == errno.EADDRINUSE:
        return LocalError(
            f"Port {port} on {host} is in use by another program, perhaps another Palaver or a CIS node.",
            f"Stop it (`ss -ltnp 'sport = :{port}'` shows it), or set another port in the configuration.",
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return LocalError(
            f"This user may not listen on port {port} of {host}.",
            "Set a port of 1024 or higher in the configuration, or give the program CAP_NET_BIND_SERVICE.",
        )
    if error.errno in NO_SUCH_ADDRESS:
        return LocalError(
            f"This machine has no address {host}.",
            "Set one that it has (`ip address` lists them), or 0.0.0.0 and :: for all of them.",
        )
    return LocalError(
        f"Port {port} on {host} could not be opened: {error.strerror}.",
        "Set another address or port in the configuration.",
    )


# Seconds that cancelled requests have to end.
CANCEL_TIMEOUT = 2.0


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    binds: Sequence[Bind]
    port: int
    plain_networks: Collection[Network] = LOOPBACK
    limits: Limits = field(default_factory=Limits)


class Listener:
    """Listens on the port between `start` and `close`, each called once. `listening` are sockets bound
    before; they are closed here."""

    def __init__(
        self,
        app: web.Application,
        settings: ListenerSettings,
        tls: Tls | None,
        observer: Observer,
        *,
        listening: Sequence[socket.socket] = (),
    ) -> None:
        """Without `tls` (when a proxy in front terminates TLS) the port serves plain HTTP only."""
        self._app = app
        self._settings = settings
        self._tls = tls
        self._observer = observer
        self._listening = list(listening)
        self._accepting = BackgroundTasks()
        self._setup: ConnectionSetup | None = None
        self.addresses: tuple[BoundAddress, ...] = ()

    async def start(self) -> tuple[BoundAddress, ...]:
        """Bind all addresses, then serve them. Raises LocalError if one cannot be bound; then none is."""
        settings = self._settings
        self._listening = self._listening or bind(settings.binds, settings.port)
        self.addresses = tuple(bound_address(listening) for listening in self._listening)
        try:
            server = await self._make_server()
        except BaseException:
            self._close_listening()
            raise
        rules = AdmissionRules(settings.plain_networks, offers_tls=self._tls is not None)
        self._setup = ConnectionSetup(server, rules, settings.limits, self._tls, self._observer)
        for listening in self._listening:
            self._accepting.supervise(
                "accepting connections", partial(accept, listening, self._setup.handle_socket, self._observer)
            )
        return self.addresses

    async def close(self, timeout: float) -> None:  # noqa: ASYNC109 - it limits the requests, not this call
        """Stop accepting, let requests finish for `timeout` seconds, then cancel them."""
        if self._setup is None:
            return
        await self._accepting.close()
        self._close_listening()
        await self._setup.close()
        for connection in list(self._setup.connections):
            connection.stop()
        try:
            if not await self._finish_requests(timeout):
                await self._cancel_requests()
        finally:
            await self._app.cleanup()
            self._setup = None

    async def _make_server(self) -> web.Server:
        runner = web.AppRunner(self._app)
        await runner.setup()
        server = runner.server
        assert server is not None, "setup() creates one"
        wrap_server(server, self._settings.limits, self._observer, self._required)
        return server

    def _required(self) -> Collection[str]:
        return self._tls.current.required if self._tls is not None else ()

    def _close_listening(self) -> None:
        for listening in self._listening:
            listening.close()
        self._listening = []

    async def _finish_requests(self, seconds: float) -> bool:
        """Return whether all connections ended in that time."""
        try:
            async with asyncio.timeout(seconds):
                await self._run_shutdown_handlers()
                await self._all_connections_closed()
        except TimeoutError:
            return False
        return True

    async def _run_shutdown_handlers(self) -> None:
        """Run the shutdown handlers, which end long-lived responses such as WebSockets."""
        try:
            await self._app.shutdown()
        except Exception as error:
            self._observer.problem("A shutdown handler failed.", error)

    async def _all_connections_closed(self) -> None:
        assert self._setup is not None, "it is there from start() until close()"
        await self._setup.is_empty.wait()

    async def _cancel_requests(self) -> None:
        assert self._setup is not None, "it is there from start() until close()"
        connections = list(self._setup.connections)
        tasks = [connection.task for connection in connections if connection.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            _, unfinished = await asyncio.wait(tasks, timeout=CANCEL_TIMEOUT)
            if unfinished:
                self._observer.problem("Some requests did not end after they were cancelled.", None)
        for connection in connections:
            connection.abort()
        try:
            async with asyncio.timeout(CANCEL_TIMEOUT):
                await self._all_connections_closed()
        except TimeoutError:
            self._observer.problem("Some connections could not be closed.", None)
