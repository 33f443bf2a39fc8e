"""A scripted published CIS node: plain HTTP, one event per request, no authentication."""

import asyncio
import contextlib
import io
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from tests.support.ports import lasting_port

TIMEOUT = 30.0
TIME = "2026-02-08T10:36:00.123456789Z"


@dataclass
class PublishedNode:
    """`answers` are its next responses as (status, body); after them it accepts everything."""

    name: str
    url: str
    session: aiohttp.ClientSession
    taken: asyncio.Queue[dict[str, Any]] = field(default_factory=asyncio.Queue)
    answers: list[tuple[int, Any]] = field(default_factory=list)
    attempts: int = 0

    async def receive(self, request: web.Request) -> web.Response:
        event = await request.json()
        self.attempts += 1
        if self.answers:
            status, body = self.answers.pop(0)
            return web.json_response(body, status=status)
        self.taken.put_nowait(event)
        return web.json_response({"accepted": True, "event_id": event["event_id"]})

    async def next(self, type_: str) -> dict[str, Any]:
        """Return the next event of a type, and drop others."""
        async with asyncio.timeout(TIMEOUT):
            while (event := await self.taken.get())["type"] != f"io.cis.agent.{type_}":
                pass
        return event

    def event(
        self, type_: str, payload: Mapping[str, Any], *, to: str | None = None, agent: str = "old-1", **changed: Any
    ) -> dict[str, Any]:
        """Return an envelope of 2.2 with nested content, without `origin`. `to` is the node of the room."""
        room = f"!agent-federation-default:{to or self.name}"
        return {
            "event_id": f"${uuid.uuid4()}",
            "room_id": room,
            "sender": f"@{agent}:{self.name}",
            "type": f"io.cis.agent.{type_}",
            "content": {"event_type": f"io.cis.agent.{type_}", "payload": {"timestamp": TIME, **payload}},
            "origin_server_ts": 1_770_546_960_000,
            **changed,
        }

    def registered(self, agent_id: str = "old-1", **changed: Any) -> dict[str, Any]:
        payload = {
            "agent_id": agent_id,
            "node_id": self.name,
            "runtime_type": "open_code",
            "capabilities": ["task_execution", "messaging"],
            **changed,
        }
        return self.event("registered", payload, agent=agent_id)

    def request(self, to_agent: str, **changed: Any) -> dict[str, Any]:
        payload = {
            "request_id": "req-1",
            "from_agent": f"old-1@{self.name}",
            "to_agent": to_agent,
            "task": {
                "task_id": "t",
                "prompt": "do it",
                "context": "",
                "system_prompt": None,
                "model": None,
                "metadata": {},
            },
            "timeout_secs": None,
            **changed,
        }
        return self.event("task.request", payload, to=to_agent.partition("@")[2])

    async def send(self, url: str, event: Any, headers: Mapping[str, str] | None = None) -> tuple[int, dict[str, Any]]:
        body = event if isinstance(event, bytes) else orjson.dumps(event)
        async with self.session.post(
            f"{url}/_cis/v1/event/receive", data=io.BytesIO(body), headers=headers
        ) as response:
            return response.status, await response.json()


@contextlib.asynccontextmanager
async def published_node(name: str) -> AsyncIterator[PublishedNode]:
    port = lasting_port()
    async with aiohttp.ClientSession() as session:
        node = PublishedNode(name, f"http://127.0.0.1:{port}", session)
        app = web.Application(client_max_size=4 * 1024 * 1024)
        app.add_routes([web.post("/_cis/v1/event/receive", node.receive)])
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
            yield node
        finally:
            await runner.cleanup()
