"""The API for attached agents on a listener of its own, with a task service, and clients for it."""

import asyncio
import contextlib
import io
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from bridge.agents.attached.attached import AttachedLimits
from bridge.agents.attached.http import add_routes
from bridge.agents.attached.messages import AGENT
from bridge.agents.attached.services import AgentServices, ApiLimits
from bridge.agents.attached.tokens import AgentTokens
from bridge.clock import monotonic
from federation.http.app import make_app
from federation.http.server.listener import Bind, Listener, ListenerSettings
from federation.http.services import Node, Readiness
from federation.matrix.networks import AdmissionRules
from storage.database import Database
from tests.bridge.agents.agent_node import AgentNode, agent_node
from tests.federation.http.running import PATIENT, Recorder
from tests.support.agents import Clock

TIMEOUT = 60.0
SESSION = "session-1"


@dataclass
class Answer:
    status: int
    body: Any


@dataclass
class Api:
    """A node's API, and clients for it."""

    node: AgentNode
    tokens: AgentTokens
    services: AgentServices
    listener: Listener
    port: int
    seen: Recorder
    http: aiohttp.ClientSession
    known: dict[str, str] = field(default_factory=dict)

    def url(self, path: str = "", agent_id: str = "worker") -> str:
        return f"http://127.0.0.1:{self.port}{AGENT.format(agent_id=quote(agent_id, safe=''))}{path}"

    async def token(self, agent_id: str = "worker") -> str:
        if agent_id not in self.known:
            self.known[agent_id] = (await self.tokens.create(agent_id, "", None))[0].text
        return self.known[agent_id]

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        agent_id: str = "worker",
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
    ) -> Answer:
        shown = {"Authorization": f"Bearer {await self.token(agent_id)}"} if headers is None else headers
        raw = json.dumps(body).encode() if data is None and body is not None else data
        url = self.url(path, agent_id)
        async with self.http.request(
            method, URL(url, encoded=True), headers=shown, data=None if raw is None else io.BytesIO(raw)
        ) as response:
            text = await response.read()
            return Answer(response.status, json.loads(text) if text else None)

    async def register(self, session: str = SESSION, agent_id: str = "worker", **said: Any) -> Any:
        answer = await self.ask("PUT", "", {"session": session, **said}, agent_id=agent_id)
        assert answer.status == 200, answer
        return answer.body

    async def take(self, session: str = SESSION, wait: float = TIMEOUT, **said: Any) -> Any:
        answer = await self.ask("POST", "/tasks/take", {"session": session, "wait_seconds": wait, **said})
        assert answer.status == 200, answer
        return answer.body

    async def say(self, task: Mapping[str, Any], what: str, session: str = SESSION, **said: Any) -> Answer:
        body = {"session": session, "attempt": task["attempt"], **said}
        return await self.ask("POST", f"/tasks/{task['work_id']}/{what}", body)

    @contextlib.asynccontextmanager
    async def socket(self, agent_id: str = "worker") -> AsyncIterator["Socket"]:
        headers = {"Authorization": f"Bearer {await self.token(agent_id)}"}
        async with self.http.ws_connect(self.url("/socket", agent_id), headers=headers) as web_socket:
            yield Socket(web_socket)


async def until_waiting(one: Api, agent_id: str = "worker", session: str = SESSION) -> None:
    """Wait until a request for a task is waiting."""
    async with asyncio.timeout(TIMEOUT):
        while not one.node.attached.session(agent_id, session)._waiters:
            await asyncio.sleep(0.01)


@dataclass
class Socket:
    """`pushed` has the messages that the node sends on its own."""

    socket: aiohttp.ClientWebSocketResponse
    pushed: "asyncio.Queue[dict[str, Any]]" = field(default_factory=asyncio.Queue)
    number: int = 0
    code: int | None = None

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when the socket is closed."""
        message = await asyncio.wait_for(self.socket.receive(), TIMEOUT)
        if message.type is aiohttp.WSMsgType.CLOSE:
            # What the client reports depends on which side closes first.
            self.code = message.data
        if message.type is not aiohttp.WSMsgType.TEXT:
            return None
        value: dict[str, Any] = json.loads(message.data)
        return value

    async def call(self, do: str, work_id: str | None = None, **body: Any) -> dict[str, Any]:
        self.number += 1
        said = {"id": self.number, "do": do, "body": {"session": SESSION, **body}}
        await self.socket.send_json(said if work_id is None else {**said, "work_id": work_id})
        while True:
            message = await self.receive()
            assert message is not None, self.code
            if "id" not in message:
                self.pushed.put_nowait(message)
                continue
            assert message["id"] == self.number
            return message

    async def push(self) -> dict[str, Any]:
        if not self.pushed.empty():
            return self.pushed.get_nowait()
        message = await self.receive()
        assert message is not None, self.code
        assert "id" not in message
        return message

    async def is_closed(self) -> int | None:
        """Wait for the close, and return its code."""
        while await self.receive() is not None:
            pass
        return self.code


@contextlib.asynccontextmanager
async def api(
    database: Database,
    directory: Path,
    *,
    port: int = 0,
    limits: ApiLimits | None = None,
    attached_limits: AttachedLimits | None = None,
    **wanted: Any,
) -> AsyncIterator[Api]:
    clock = wanted.pop("clock", Clock())
    async with agent_node(database, directory, clock=clock, limits=attached_limits, **wanted) as node:
        tokens = AgentTokens(database, now_ms=clock)
        services = AgentServices(
            tokens, node.attached, node.work, node.routes, clock, wanted.get("monotonic", monotonic),
            limits or ApiLimits(),
        )  # fmt: skip
        seen = Recorder()
        app = make_app(Node(lambda: b"{}", Readiness, "1.2.3", AdmissionRules()), PATIENT)
        add_routes(app, services)
        listener = Listener(app, ListenerSettings((Bind("127.0.0.1"),), port, limits=PATIENT), None, seen)
        addresses = await listener.start()
        try:
            async with aiohttp.ClientSession() as http:
                yield Api(node, tokens, services, listener, addresses[0].port, seen, http)
        finally:
            await listener.close(5.0)
        assert seen.problems == []
