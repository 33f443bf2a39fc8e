"""Sets up accepted connections: limits, the decision between TLS and plain HTTP, and the TLS handshake."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from functools import partial

from aiohttp import web

from federation.http import responses as refusals
from federation.http.responses import raw_response
from federation.http.server import tls
from federation.http.server.accept import first_byte, respond_and_close
from federation.http.server.capacity import Capacity, ConnectionSlot, Limits
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


class ConnectionSetup:
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
        self._setups = BackgroundTasks()
        self._refusals_in_progress = 0
        self.connections: dict[Connection, ConnectionSlot] = {}
        self.is_empty = asyncio.Event()
        self.is_empty.set()

    def handle_socket(self, accepted: socket.socket, host: str) -> None:
        """Begin to set up an accepted connection, in a background task."""
        self._setups.spawn("new connection", self._set_up(accepted, read_address(host)))

    async def close(self) -> None:
        """Close the connections that are still being set up."""
        # A task that is cancelled before its first step never runs and cannot close its socket.
        await asyncio.sleep(0)
        await self._setups.close()

    async def _set_up(self, accepted: socket.socket, address: Address) -> None:
        try:
            slot = self._capacity.acquire(address)
            if isinstance(slot, Refusal):
                with accepted:
                    await self._refuse(accepted, address, slot)
                return
            try:
                if not await self._open_connection(accepted, address, slot):
                    slot.release()
            except BaseException:
                slot.release()
                raise
        except Exception as error:
            self._observer.problem("A connection could not be set up.", error)

    async def _open_connection(self, accepted: socket.socket, address: Address, slot: ConnectionSlot) -> bool:
        with contextlib.ExitStack() as stack:
            stack.callback(accepted.close)
            kind = await self._admit(accepted, address)
            if kind is None:
                return False
            # From here on the transport owns the socket. Closing it here too could close another socket
            # that has got its file descriptor meanwhile.
            stack.pop_all()
        if kind is Kind.PLAIN:
            connection = self._connection(Kind.PLAIN, slot, lambda transport: None)
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, accepted)
            return True
        return await self._handshake(accepted, slot)

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
                response = raw_response(refusals.plain_not_allowed())
                await respond_and_close(accepted, response, self._limits.linger_timeout)
            return None
        return Kind.TLS if isinstance(decision, AcceptTls) else Kind.PLAIN

    async def _handshake(self, accepted: socket.socket, slot: ConnectionSlot) -> bool:
        assert self._tls is not None, "the rules admit TLS only if there is a certificate"
        material = self._tls.current
        connection = self._connection(Kind.TLS, slot, partial(identify, material))
        limits = self._limits
        try:
            async with asyncio.timeout(limits.handshake_timeout + HANDSHAKE_SLACK):
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: connection,
                    accepted,
                    ssl=material.context,
                    ssl_handshake_timeout=limits.handshake_timeout,
                    ssl_shutdown_timeout=limits.tls_shutdown_timeout,
                )
        except OSError as error:
            # This includes ssl.SSLError and TimeoutError.
            self._observer.handshake_failed(failure_of(error))
            return False
        return True

    async def _refuse(self, accepted: socket.socket, address: Address, reason: Refusal) -> None:
        """Refuse a connection beyond the limits. Only `max_refusal_responses` get an error at the same
        time, which needs resources too."""
        self._observer.connection_refused(reason)
        if self._refusals_in_progress >= self._limits.max_refusal_responses:
            return
        self._refusals_in_progress += 1
        try:
            async with asyncio.timeout(self._limits.linger_timeout):
                first = await first_byte(accepted)
            if isinstance(admit(address, first, self._rules), AcceptPlain):
                full = reason is Refusal.TOO_MANY
                error = refusals.too_many_connections() if full else refusals.too_many_from_address()
                await respond_and_close(accepted, raw_response(error), self._limits.linger_timeout)
        except TimeoutError:
            # The peer sent nothing, so it gets no response.
            return
        finally:
            self._refusals_in_progress -= 1

    def _connection(
        self, kind: Kind, slot: ConnectionSlot, identify: Callable[[asyncio.BaseTransport], ClientCertificate | None]
    ) -> Connection:
        return Connection(
            self._server,
            kind=kind,
            limits=self._limits,
            observer=self._observer,
            identify=identify,
            on_made=partial(self._opened, slot),
            on_lost=self._lost,
        )

    def _opened(self, slot: ConnectionSlot, connection: Connection) -> None:
        self.connections[connection] = slot
        self.is_empty.clear()

    def _lost(self, connection: Connection) -> None:
        self.connections.pop(connection).release()
        if not self.connections:
            self.is_empty.set()


def identify(material: tls.TlsMaterial, transport: asyncio.BaseTransport) -> ClientCertificate | None:
    """Return the certificate that the peer presented in the handshake, with the peers to which it
    belongs."""
    der = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return None if der is None else material.peers.identify(der)
