"""Offices served on loopback, and bare Socket.IO clients that can send what published clients refuse to
send."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import socketio
from aiohttp import web

from bridge.connectors.offices.protocol.events import JOIN, LEAVE, LIST, NAMESPACE, TOOL_CALL
from bridge.connectors.offices.protocol.office import Member
from bridge.connectors.offices.protocol.relay import RelayRequest
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
    """`answers` maps an event to the acknowledgement of it: a value, or a function of the event's payload."""

    io: Any
    received: list[tuple[str, Any]] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def request(self, event: str, payload: Any = None) -> Any:
        """Return the acknowledgement, as a list if it has several arguments."""
        answer = await self.io.call(event, payload, namespace=NAMESPACE, timeout=TIMEOUT)
        return list(answer) if isinstance(answer, tuple) else answer

    async def emit(self, event: str, payload: Any = None) -> None:
        await self.io.emit(event, payload, namespace=NAMESPACE)

    async def join(self, role: str, name: str, office_id: str = "a") -> Any:
        return await self.request(JOIN, {"role": role, "name": name, "office_id": office_id})

    async def leave(self, office_id: str = "a") -> Any:
        return await self.request(LEAVE, {"office_id": office_id})

    async def list_room(self, office_id: str = "a") -> Any:
        return await self.request(LIST, {"agent": "x", "req_id": "list", "office_id": office_id})

    async def tools(self, computer: str) -> Any:
        return await self.request("client:get_tools", {"agent": "x", "req_id": "tools", "computer": computer})

    async def call(self, computer: str, req_id: str = "1", seconds: int = 5, **params: Any) -> Any:
        payload = {
            "agent": "x", "req_id": req_id, "computer": computer, "tool_name": "add", "params": params,
            "timeout": seconds,
        }  # fmt: skip
        return await self.request(TOOL_CALL, payload)

    async def wait_for(self, event: str, payload: Any = None) -> Any:
        """Wait for an event, unless it has arrived already, and remove it from `received`."""
        async with asyncio.timeout(TIMEOUT):
            while True:
                self._changed.clear()
                for one in self.received:
                    if one[0] == event and (payload is None or one[1] == payload):
                        self.received.remove(one)
                        return one[1]
                await self._changed.wait()

    async def unexpected(self) -> list[tuple[str, Any]]:
        """The received events that no `wait_for` has removed. The request makes sure that all events which
        were sent before it have arrived."""
        await self.request("server:unheard_of", {})
        return self.received

    async def handle(self, event: str, payload: Any) -> Any:
        self.received.append((event, payload))
        self._changed.set()
        answer = self.answers.get(event)
        if isinstance(answer, Callable):  # type: ignore[arg-type]
            answer = answer(payload)
        return await answer if asyncio.iscoroutine(answer) or isinstance(answer, asyncio.Future) else answer

    async def close(self) -> None:
        await self.io.disconnect()


class _ClientNamespace(socketio.AsyncClientNamespace):
    def __init__(self, client: Client) -> None:
        super().__init__(NAMESPACE)
        self._client = client

    async def trigger_event(self, event: str, *args: Any) -> Any:
        if event in {"connect", "disconnect", "connect_error"}:
            return None
        return await self._client.handle(event, args[0] if args else None)


def _set_event() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@dataclass
class FakeRecords:
    """Takes the place of `OfficeRecords` and `CallApprovals`: lists what is recorded and approves every call.
    If `error` is set, it is raised instead. A leave is recorded only once `leaving` is set."""

    entries: list[tuple[str, Any]] = field(default_factory=list)
    error: Exception | None = None
    leaving: asyncio.Event = field(default_factory=_set_event)
    is_leaving: asyncio.Event = field(default_factory=asyncio.Event)

    def monotonic(self) -> float:
        return 0.0

    async def record_joined(self, member: Member, version: ProtocolVersion | None) -> None:
        self._add("joined", member.name)

    async def record_left(self, member: Member, reason: str = "") -> None:
        self.is_leaving.set()
        await self.leaving.wait()
        self._add("left", member.name)

    async def record_call(self, request: RelayRequest) -> str:
        self._add("called", request.req_id)
        return request.req_id

    async def record_answer(self, call_id: str, request: RelayRequest, answer: Any, began: float) -> None:
        # As in `OfficeRecords`, a failure does not keep the answer from the caller.
        if self.error is None:
            self._add("answered", call_id)

    async def record_tools(self, request: RelayRequest, answer: Any) -> None:
        self._add("tools", request.target.name)

    async def check(self, call_id: str, request: RelayRequest, outcome: "asyncio.Future[Any]") -> None:
        """Approve the call."""

    def _add(self, kind: str, name: str) -> None:
        if self.error is not None:
            raise self.error
        self.entries.append((kind, name))


@dataclass
class Clients:
    """Connects clients to the offices at this address. The stack disconnects them."""

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
        """Raises `socketio.exceptions.ConnectionError` if the server refuses the connection."""
        io = socketio.AsyncClient(reconnection=False)
        client = Client(io)
        io.register_namespace(_ClientNamespace(client))
        url = self.url if version is None else f"{self.url}?a2c_version={version}"
        auth = None if token is None else {"token": token}
        if auth is not None and declares is not None:
            auth["palaver"] = declares

        async def end() -> None:
            # A polling client waits for the answer to its last request.
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
        answer = await client.join(role, name, office_id)
        assert answer == [True, None], answer
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
        records: FakeRecords | None = None,
    ) -> None:
        super().__init__(url, stack)
        self.server, self.problems, self.records = server, problems, records


class Service(Protocol):
    async def start(self) -> None: ...

    async def close(self) -> None: ...


@asynccontextmanager
async def serving(
    app: web.Application, service: Service, server: SmcpServer, problems: list[str], records: FakeRecords | None = None
) -> AsyncIterator[Running]:
    """Serve `app` on loopback. Clients are disconnected before the server stops."""
    # A polling client that disconnects leaves an open request behind.
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    async with AsyncExitStack() as stack:
        stack.push_async_callback(runner.cleanup)
        await service.start()
        stack.push_async_callback(service.close)
        async with AsyncExitStack() as clients:
            yield Running(server, f"http://127.0.0.1:{port}", clients, problems, records)
    assert problems == [], problems


@asynccontextmanager
async def offices_on(**settings: Any) -> AsyncIterator[Running]:
    problems: list[str] = []

    async def check(token: str | None) -> Grant | None:
        return GRANTS.get(token or "")

    records = FakeRecords()
    server = SmcpServer(
        OfficeSettings(**settings), check, records, records, report=lambda sentence, error: problems.append(sentence)
    )
    app = web.Application()
    app.add_routes(list(server.routes()))
    async with serving(app, server, server, problems, records) as running:
        yield running
