"""Sets up accepted connections: limits, the decision between TLS and plain HTTP, and the TLS handshake."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from functools import partial

from aiohttp import web

from federation.http import responses as refusals
from federation.http.responses import raw_answer
from federation.http.server import tls
from federation.http.server.accept import first_byte, say_goodbye
from federation.http.server.capacity import Capacity, Limits, Place
from federation.http.server.connection import Connection, Kind
from federation.http.server.observer import Observer
from federation.http.server.peer_certificates import ClientCertificate
from federation.http.server.tls import failure_of
from federation.matrix.networks import (
    AcceptPlain,
    AcceptTls,
    Address,
    AdmissionRules,
    Refusal,
    Refuse,
    admit,
    read_address,
)
from storage.concurrency import BackgroundTasks

# Added to the handshake timeout of the event loop, in case the event loop exceeds it.
HANDSHAKE_SLACK = 5.0


class Entrance:
    """Sets up the connections of one listener, and keeps the open ones."""

    def __init__(
        self,
        server: web.Server,
        rules: AdmissionRules,
        limits: Limits,
        certificates: tls.Tls | None,
        observer: Observer,
    ) -> None:
        self._server = server
        self._rules = rules
        self._limits = limits
        self._tls = certificates
        self._observer = observer
        self._capacity = Capacity(limits)
        self._arriving = BackgroundTasks()
        self._farewells = 0
        self.connections: dict[Connection, Place] = {}
        self.is_empty = asyncio.Event()
        self.is_empty.set()

    def take(self, accepted: socket.socket, host: str) -> None:
        """Begin to set up an accepted connection, in a background task."""
        self._arriving.spawn("new connection", self._receive(accepted, read_address(host)))

    async def close(self) -> None:
        """Close the connections that are still being set up."""
        # A task that is cancelled before its first step never runs and cannot close its socket.
        await asyncio.sleep(0)
        await self._arriving.close()

    async def _receive(self, accepted: socket.socket, address: Address) -> None:
        try:
            place = self._capacity.take(address)
            if isinstance(place, Refusal):
                with accepted:
                    await self._refuse(accepted, address, place)
                return
            try:
                if not await self._let_in(accepted, address, place):
                    place.give_back()
            except BaseException:
                place.give_back()
                raise
        except Exception as error:
            self._observer.problem("A connection could not be set up.", error)

    async def _let_in(self, accepted: socket.socket, address: Address, place: Place) -> bool:
        with contextlib.ExitStack() as ours:
            ours.callback(accepted.close)
            kind = await self._admit(accepted, address)
            if kind is None:
                return False
            # From here on the transport owns the socket. Closing it here too could close another socket
            # that has got its file descriptor meanwhile.
            ours.pop_all()
        if kind is Kind.PLAIN:
            connection = self._connection(Kind.PLAIN, place, lambda transport: None)
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted)
            return True
        return await self._shake_hands(accepted, place)

    async def _admit(self, accepted: socket.socket, address: Address) -> Kind | None:
        """Wait for the first byte, and decide by it whether and how to serve the connection."""
        try:
            async with asyncio.timeout(self._limits.first_byte_timeout):
                first = await first_byte(accepted)
        except TimeoutError:
            self._observer.connection_refused(Refusal.SILENT)
            return None
        decision = admit(address, first, self._rules)
        if isinstance(decision, Refuse):
            self._observer.connection_refused(decision.reason)
            if decision.reason is Refusal.PLAIN_NOT_ALLOWED:
                answer = raw_answer(refusals.plain_not_allowed())
                await say_goodbye(accepted, answer, self._limits.linger_timeout)
            return None
        return Kind.TLS if isinstance(decision, AcceptTls) else Kind.PLAIN

    async def _shake_hands(self, accepted: socket.socket, place: Place) -> bool:
        assert self._tls is not None, "the rules admit TLS only if there is a certificate"
        generation = self._tls.current
        connection = self._connection(Kind.TLS, place, partial(identify, generation))
        limits = self._limits
        try:
            async with asyncio.timeout(limits.handshake_timeout + HANDSHAKE_SLACK):
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: connection,
                    accepted,
                    ssl=generation.context,
                    ssl_handshake_timeout=limits.handshake_timeout,
                    ssl_shutdown_timeout=limits.tls_shutdown_timeout,
                )
        except OSError as error:
            # This includes ssl.SSLError and TimeoutError.
            self._observer.handshake_failed(failure_of(error))
            return False
        return True

    async def _refuse(self, accepted: socket.socket, address: Address, reason: Refusal) -> None:
        """Refuse a connection beyond the limits. Only `max_farewells` of them get an error at the same
        time, which needs resources too."""
        self._observer.connection_refused(reason)
        if self._farewells >= self._limits.max_farewells:
            return
        self._farewells += 1
        try:
            async with asyncio.timeout(self._limits.linger_timeout):
                first = await first_byte(accepted)
            if isinstance(admit(address, first, self._rules), AcceptPlain):
                full = reason is Refusal.TOO_MANY
                words = refusals.too_many_connections() if full else refusals.too_many_from_address()
                await say_goodbye(accepted, raw_answer(words), self._limits.linger_timeout)
        except TimeoutError:
            # The peer sent nothing, so it gets no response.
            return
        finally:
            self._farewells -= 1

    def _connection(
        self, kind: Kind, place: Place, identify: Callable[[asyncio.BaseTransport], ClientCertificate | None]
    ) -> Connection:
        return Connection(
            self._server,
            kind=kind,
            limits=self._limits,
            observer=self._observer,
            identify=identify,
            on_made=partial(self._made, place),
            on_lost=self._lost,
        )

    def _made(self, place: Place, connection: Connection) -> None:
        self.connections[connection] = place
        self.is_empty.clear()

    def _lost(self, connection: Connection) -> None:
        self.connections.pop(connection).give_back()
        if not self.connections:
            self.is_empty.set()


def identify(generation: tls.Generation, transport: asyncio.BaseTransport) -> ClientCertificate | None:
    """Return the certificate that the peer presented in the handshake, with the peers to which it
    belongs."""
    der = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return None if der is None else generation.peers.identify(der)
