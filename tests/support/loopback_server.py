"""A server on loopback: real TLS, the responses that a test chooses, and a record of the requests."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from federation.client.peer_settings import CertificateFiles
from federation.http.server.development_certificate import build

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
RawHandler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Certificates:
    """Issues certificates; a client that trusts `trusted` trusts all of them, except those issued as
    untrusted."""

    directory: Path
    made: int = 0

    @property
    def trusted(self) -> Path:
        return self.directory / "trusted.pem"

    def make(self, *names: str, trusted: bool = True) -> CertificateFiles:
        self.made += 1
        certificate = build(names, datetime.now(UTC))
        files = CertificateFiles(self.directory / f"{self.made}.pem", self.directory / f"{self.made}.key")
        files.certificate.write_bytes(certificate.certificate)
        files.private_key.write_bytes(certificate.private_key)
        self.authority_of(files).write_bytes(certificate.authority)
        if trusted:
            with self.trusted.open("ab") as file:
                file.write(certificate.authority)
        return files

    def authority_of(self, files: CertificateFiles) -> Path:
        """Return the authority of this certificate only."""
        return files.certificate.with_suffix(".ca")


@dataclass
class LoopbackServer:
    """Responds with `handler`; `requests` are the received requests, `names` the SNI of each connection."""

    handler: Handler
    requests: list[web.Request] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    connections: set[object] = field(default_factory=set)
    port: int = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.connections.add(request.transport)
        self.bodies.append(await request.read())
        return await self.handler(request)

    @contextlib.asynccontextmanager
    async def running(
        self,
        files: CertificateFiles | None,
        *,
        client_authority: Path | None = None,
        addresses: Sequence[str] = ("127.0.0.1",),
    ) -> AsyncIterator["LoopbackServer"]:
        """Start the server; without `files`, with plain HTTP."""
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self.handle)
        # What a test has left unanswered is not waited for.
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        context = None if files is None else server_context(files, client_authority, self.names)
        for address in addresses:
            site = web.TCPSite(runner, address, self.port, ssl_context=context)
            await site.start()
            self.port = runner.addresses[-1][1]
        try:
            yield self
        finally:
            await runner.cleanup()


@contextlib.asynccontextmanager
async def raw_server(handler: RawHandler, files: CertificateFiles | None) -> AsyncIterator[int]:
    """Start a TCP server that only does what `handler` does; return its port."""
    context = None if files is None else server_context(files, None, [])

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await handler(reader, writer)
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


def server_context(files: CertificateFiles, client_authority: Path | None, names: list[str | None]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.private_key)
    if client_authority is not None:
        context.load_verify_locations(client_authority)
        context.verify_mode = ssl.CERT_REQUIRED
    context.sni_callback = lambda _, name, __: names.append(name)
    return context
