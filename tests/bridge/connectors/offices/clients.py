"""Offices on loopback, and bare Socket.IO clients that say what published ones would refuse to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import socketio
from aiohttp import web

from bridge.connectors.offices.protocol.events import JOIN, LEAVE, LIST, NAMESPACE, TOOL_CALL
from bridge.connectors.offices.protocol.office import Member
from bridge.connectors.offices.protocol.relay import Relay
from bridge.connectors.offices.protocol.versions import ProtocolVersion
from bridge.connectors.offices.server.server import SmcpServer
from bridge.connectors.offices.settings import OfficeSettings
from bridge.connectors.offices.tokens import Grant

TIMEOUT = 20.0
BOTH = frozenset({"agent", "computer"})
GRANTS = {
    "any": Grant("1", "somebody", BOTH, ()),
    "agents": Grant("2", "a boss", frozenset({"agent"}), ()),
    "kitchen": Grant("3", "a cook", BOTH, ("kitchen*",)),
}


@dataclass
class Client:
    """`answers` are what it answers as a Computer, by event: a value, or what is called with what was
    said."""

    io: Any
    heard: list[tuple[str, Any]] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, event: str, said: Any = None) -> Any:
        """What is answered: a list if it has several arguments."""
        answer = await self.io.call(event, said, namespace=NAMESPACE, timeout=TIMEOUT)
        return list(answer) if isinstance(answer, tuple) else answer

    async def tell(self, event: str, said: Any = None) -> None:
        await self.io.emit(event, said, namespace=NAMESPACE)

    async def join(self, role: str, name: str, office_id: str = "a") -> Any:
        return await self.ask(JOIN, {"role": role, "name": name, "office_id": office_id})

    async def leave(self, office_id: str = "a") -> Any:
        return await self.ask(LEAVE, {"office_id": office_id})

    async def list_room(self, office_id: str = "a") -> Any:
        return await self.ask(LIST, {"agent": "x", "req_id": "list", "office_id": office_id})

    async def tools(self, computer: str) -> Any:
        return await self.ask("client:get_tools", {"agent": "x", "req_id": "tools", "computer": computer})

    async def call(self, computer: str, req_id: str = "1", seconds: int = 5, **params: Any) -> Any:
        said = {
            "agent": "x", "req_id": req_id, "computer": computer, "tool_name": "add", "params": params,
            "timeout": seconds,
        }  # fmt: skip
        return await self.ask(TOOL_CALL, said)

    async def until(self, event: str, said: Any = None) -> Any:
        """The first such notice, whether it came already or still has to; it is not given again."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                self._changed.clear()
                for one in self.heard:
                    if one[0] == event and (said is None or one[1] == said):
                        self.heard.remove(one)
                        return one[1]
                await self._changed.wait()

    async def quiet(self) -> list[tuple[str, Any]]:
        """What it was told and nobody has waited for: all that was said to it before this is here."""
        await self.ask("server:unheard_of", {})
        return self.heard

    async def on(self, event: str, said: Any) -> Any:
        self.heard.append((event, said))
        self._changed.set()
        answer = self.answers.get(event)
        if isinstance(answer, Callable):  # type: ignore[arg-type]
            answer = answer(said)
        return await answer if asyncio.iscoroutine(answer) or isinstance(answer, asyncio.Future) else answer

    async def close(self) -> None:
        await self.io.disconnect()


class _Hearing(socketio.AsyncClientNamespace):
    def __init__(self, client: Client) -> None:
        super().__init__(NAMESPACE)
        self._client = client

    async def trigger_event(self, event: str, *args: Any) -> Any:
        if event in {"connect", "disconnect", "connect_error"}:
            return None
        return await self._client.on(event, args[0] if args else None)


@dataclass
class Written:
    """Where what happens is written down; `fails` is raised instead."""

    happened: list[tuple[str, Any]] = field(default_factory=list)
    fails: Exception | None = None

    def began(self) -> float:
        return 0.0

    async def joined(self, member: Member, version: ProtocolVersion | None) -> None:
        self._write("joined", member.name)

    async def left(self, member: Member, reason: str = "") -> None:
        self._write("left", member.name)

    async def called(self, relay: Relay) -> str:
        self._write("called", relay.req_id)
        return relay.req_id

    async def answered(self, call_id: str, relay: Relay, answer: Any, began: float) -> None:
        # What cannot be written down is answered all the same.
        if self.fails is None:
            self._write("answered", call_id)

    async def looked(self, relay: Relay, answer: Any) -> None:
        self._write("looked", relay.target.name)

    async def let(self, call_id: str, relay: Relay, given_up: "asyncio.Future[Any]") -> None:
        """Every call is made."""

    def _write(self, what: str, whom: str) -> None:
        if self.fails is not None:
            raise self.fails
        self.happened.append((what, whom))


@dataclass
class Clients:
    """Of whoever serves offices at this address; they go with the stack."""

    url: str
    stack: AsyncExitStack

    async def client(
        self,
        token: str | None = "any",
        version: str | None = "0.4.0",
        *,
        headers: dict[str, str] | None = None,
        transports: list[str] | None = None,
        path: str = "socket.io",
        declares: Any = None,
    ) -> Client:
        """Raises `socketio.exceptions.ConnectionError` where it is refused."""
        io = socketio.AsyncClient(reconnection=False)
        client = Client(io)
        io.register_namespace(_Hearing(client))
        url = self.url if version is None else f"{self.url}?a2c_version={version}"
        auth = None if token is None else {"token": token}
        if auth is not None and declares is not None:
            auth["palaver"] = declares

        async def end() -> None:
            # One that only polls waits for the answer to its last question.
            with suppress(Exception):
                await asyncio.wait_for(io.disconnect(), 1.0)
            if io.eio.http is not None:
                await io.eio.http.close()

        self.stack.push_async_callback(end)
        await io.connect(
            url, headers=headers or {}, auth=auth, namespaces=[NAMESPACE], transports=transports,
            socketio_path=path, wait_timeout=TIMEOUT,
        )  # fmt: skip
        return client

    async def member(self, role: str, name: str, office_id: str = "a", **how: Any) -> Client:
        client = await self.client(**how)
        assert await client.join(role, name, office_id) == [True, None]
        return client

    async def agent(self, name: str = "boss", office_id: str = "a", **how: Any) -> Client:
        return await self.member("agent", name, office_id, **how)

    async def computer(self, name: str = "hands", office_id: str = "a", **how: Any) -> Client:
        return await self.member("computer", name, office_id, **how)


class Running(Clients):
    def __init__(
        self,
        server: SmcpServer,
        url: str,
        stack: AsyncExitStack,
        problems: list[str],
        written: Written | None = None,
    ) -> None:
        super().__init__(url, stack)
        self.server, self.problems, self.written = server, problems, written


class Lives(Protocol):
    async def start(self) -> None: ...

    async def close(self) -> None: ...


@asynccontextmanager
async def serving(
    app: web.Application,
    lives: Lives,
    server: SmcpServer,
    problems: list[str],
    written: Written | None = None,
) -> AsyncIterator[Running]:
    """Clients go before the server does."""
    # A client that polls and has gone leaves a question behind.
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    async with AsyncExitStack() as stack:
        stack.push_async_callback(runner.cleanup)
        await lives.start()
        stack.push_async_callback(lives.close)
        async with AsyncExitStack() as clients:
            yield Running(server, f"http://127.0.0.1:{port}", clients, problems, written)
    assert problems == [], problems


@asynccontextmanager
async def offices_on(**settings: Any) -> AsyncIterator[Running]:
    problems: list[str] = []

    async def check(token: str | None) -> Grant | None:
        return GRANTS.get(token or "")

    written = Written()
    server = SmcpServer(
        OfficeSettings(**settings),
        check,
        written,
        written,
        report=lambda sentence, error: problems.append(sentence),
    )
    app = web.Application()
    app.add_routes(list(server.routes()))
    async with serving(app, server, server, problems, written) as running:
        yield running
