"""A server of Socket.IO that lets two come in, and brings to the one what the other asks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import socketio
from aiohttp import web

from bench._harness.ports import LOOPBACK
from bench._offices.connection import NAMESPACE
from bench._offices.office import CALL, JOIN

TOKEN = "let me in"


class Relaying(socketio.AsyncNamespace):  # type: ignore[misc]  # it publishes no types
    """`answered` may change what is answered."""

    def __init__(self) -> None:
        super().__init__(NAMESPACE)
        self.joined: dict[str, str] = {}
        self.queries: list[str] = []
        self.asked: list[Any] = []

    def answered(self, answer: Any) -> Any:
        return answer

    async def trigger_event(self, event: str, *args: Any) -> Any:
        sid, *said = args
        if event == "connect":
            self.queries.append(said[0]["QUERY_STRING"])
            return said[1] == {"token": TOKEN}
        if event == JOIN:
            self.joined[said[0]["name"]] = sid
            await self.emit("notify:enter_office", {"office_id": said[0]["office_id"]}, skip_sid=sid)
            return said[0]["office_id"] != "closed", None
        if event == CALL:
            self.asked.append(said[0])
            return self.answered(await self.call(CALL, said[0], to=self.joined[said[0]["computer"]]))
        return None


@asynccontextmanager
async def relaying() -> AsyncIterator[tuple[Relaying, int]]:
    """And the port of it."""
    namespace, app = Relaying(), web.Application()
    server = socketio.AsyncServer(async_mode="aiohttp", ping_interval=1)
    server.register_namespace(namespace)
    server.attach(app)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, 0).start()
        yield namespace, runner.addresses[0][1]
        await asyncio.sleep(0)
    finally:
        await server.shutdown()
        await runner.cleanup()
