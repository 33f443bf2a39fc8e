"""A listener on a free port of loopback, its reports, and a raw client."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import uvloop
from aiohttp import web

from federation.http.app import make_app
from federation.http.server.capacity import Limits
from federation.http.server.connection_setup import ConnectionSetup
from federation.http.server.deadlines import Phase
from federation.http.server.listener import Bind, Listener, ListenerSettings
from federation.http.server.tls import Tls
from federation.http.services import Node, Readiness
from federation.matrix.networks import LOOPBACK, AdmissionRules, Network
from tests.support.tls import Authority, Issued

KEYS = b'{"server_name":"kitchen.local"}'
# Long enough for a busy machine; no test waits until it expires.
TIMEOUT = 30.0
HOUR = 3600.0
# The exceptions of a client when the other side ends a handshake; which one depends on timing.
CUT_OFF = (ssl.SSLError, ConnectionError, EOFError)
# Nothing expires by default; each test sets the limit that it tests.
PATIENT = Limits(
    first_byte_timeout=HOUR,
    handshake_timeout=HOUR,
    head_timeout=HOUR,
    body_timeout=HOUR,
    body_progress_timeout=HOUR,
    response_timeout=HOUR,
    idle_timeout=HOUR,
    stall_timeout=HOUR,
)


LOOPS: Mapping[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


@dataclass
class Recorder:
    """An observer that records reports and lets a test wait for them."""

    opened: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    expired: list[str] = field(default_factory=list)
    answered: list[tuple[str, str, int]] = field(default_factory=list)
    problems: list[tuple[str, BaseException | None]] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def connection_opened(self, kind: str) -> None:
        self._note(self.opened, kind)

    def connection_closed(self, kind: str) -> None:
        self._note(self.closed, kind)

    def connection_refused(self, reason: str) -> None:
        self._note(self.refused, reason)

    def handshake_failed(self, reason: str) -> None:
        self._note(self.failed, reason)

    def connection_expired(self, phase: str) -> None:
        self._note(self.expired, phase)

    def request_answered(self, route: str, method: str, status: int, seconds: float) -> None:
        assert seconds >= 0
        self._note(self.answered, (route, method, status))

    def problem(self, sentence: str, error: BaseException | None) -> None:
        self._note(self.problems, (sentence, error))

    async def until(self, condition: Callable[["Recorder"], object]) -> None:
        async with asyncio.timeout(TIMEOUT):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()

    def _note(self, where: list[Any], what: object) -> None:
        where.append(what)
        self._changed.set()


@dataclass
class Running:
    listener: Listener
    port: int
    seen: Recorder
    tls: Tls | None

    @property
    def entrance(self) -> ConnectionSetup:
        entrance = self.listener._setup
        assert entrance is not None, "it is there until the listener is closed"
        return entrance

    async def phase_is(self, phase: Phase) -> None:
        """Wait until a connection is in this phase."""
        async with asyncio.timeout(TIMEOUT):
            while not any(connection.deadlines.phase is phase for connection in self.entrance.connections):
                await asyncio.sleep(0)

    async def connect(self, context: ssl.SSLContext | None = None) -> "Client":
        async with asyncio.timeout(TIMEOUT):
            return Client(
                *await asyncio.open_connection(
                    "127.0.0.1", self.port, ssl=context, server_hostname="localhost" if context else None
                )
            )


async def start(
    *,
    tls: Tls | None = None,
    limits: Limits = PATIENT,
    plain_networks: tuple[Network, ...] = LOOPBACK,
    routes: Iterable[web.AbstractRouteDef] = (),
    readiness: Callable[[], Readiness] = Readiness,
    binds: tuple[Bind, ...] = (Bind("127.0.0.1"),),
    on_shutdown: Callable[[web.Application], Awaitable[None]] | None = None,
) -> Running:
    """Start a listener that the test closes."""
    seen = Recorder()
    node = Node(lambda: KEYS, readiness, "1.2.3", AdmissionRules(plain_networks))
    app = make_app(node, limits, routes)
    if on_shutdown is not None:
        app.on_shutdown.append(on_shutdown)
    listener = Listener(app, ListenerSettings(binds, 0, plain_networks, limits), tls, seen)
    addresses = await listener.start()
    return Running(listener, addresses[0].port, seen, tls)


@asynccontextmanager
async def running(**wanted: Any) -> AsyncIterator[Running]:
    """Run a listener during a test. Any reported problem fails the test."""
    node = await start(**wanted)
    try:
        yield node
    finally:
        await node.listener.close(1.0)
    assert node.seen.problems == []
    assert len(node.seen.opened) == len(node.seen.closed)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)


class Client:
    """A raw connection that sends given bytes and reads responses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.writer.transport.abort()
        # The transport closes its socket in the next iteration of the event loop.
        await asyncio.sleep(0)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def ask(
        self,
        path: str = "/health/live",
        method: str = "GET",
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        await self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        return await self.answer(has_body=method != "HEAD")

    async def answer(self, *, has_body: bool = True) -> Answer:
        async with asyncio.timeout(TIMEOUT):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("ascii").split("\r\n")
            fields = (line.partition(":") for line in head[1:] if line)
            headers = {name.lower(): value.strip() for name, _, value in fields}
            length = int(headers.get("content-length", 0)) if has_body else 0
            return Answer(int(head[0].split()[1]), headers, await self.reader.readexactly(length))

    async def rest(self) -> bytes:
        """Read until the other side closes; a reset counts as closing."""
        async with asyncio.timeout(TIMEOUT):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    async def is_closed(self) -> bool:
        """Return whether the other side closes cleanly without sending more."""
        async with asyncio.timeout(TIMEOUT):
            return await self.reader.read() == b""


def client_context(authority: Authority, shown: Issued | None = None, directory: Any = None) -> ssl.SSLContext:
    """Return a context that trusts the authority, with a client certificate if one is given."""
    context = ssl.create_default_context(cadata=authority.pem.decode())
    if shown is not None:
        context.load_cert_chain(*shown.write(directory, "shown"))
    return context
