"""A fake homeserver on loopback with responses chosen by the test, and a client for it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any

from aiohttp import web

from appservice.homeserver.client import HomeserverClient, open_session
from tests.support.loopback_server import LoopbackServer

TOKEN = "an as_token"


@dataclass
class RecordingMonitor:
    """Records requests and their outcomes, and lets every request pass."""

    requests: list[tuple[str, str, str]] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    unavailable: Exception | None = None

    def request_finished(self, method: str, kind: str, outcome: str, seconds: float) -> None:
        assert seconds >= 0
        self.requests.append((method, kind, outcome))

    async def wait_until_available(self) -> None:
        if self.unavailable is not None:
            raise self.unavailable

    def request_failed(self, away: Exception) -> None:
        self.outcomes.append("lost")

    def request_answered(self) -> None:
        self.outcomes.append("answered")


@dataclass
class Homeserver:
    server: LoopbackServer
    client: HomeserverClient
    monitor: RecordingMonitor

    @property
    def targets(self) -> list[str]:
        """Method and path of each request, in order."""
        return [f"{request.method} {request.raw_path}" for request in self.server.requests]


@asynccontextmanager
async def homeserver(handler: Callable[[web.Request], Any]) -> AsyncIterator[Homeserver]:
    """`handler` returns a response, JSON for a 200, or a status with JSON; it may be a coroutine."""

    async def handle(request: web.Request) -> web.StreamResponse:
        said = handler(request)
        if isawaitable(said):
            said = await said
        if isinstance(said, web.StreamResponse):
            return said
        if isinstance(said, tuple):
            return web.json_response(said[1], status=said[0])
        return web.json_response(said)

    server = LoopbackServer(handle)
    monitor = RecordingMonitor()
    async with server.running(None), open_session() as session:
        url = f"http://127.0.0.1:{server.port}"
        yield Homeserver(server, HomeserverClient(session, url, TOKEN, observer=monitor, monitor=monitor), monitor)
