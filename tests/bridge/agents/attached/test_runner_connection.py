"""The runner's connection to the node."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from bridge.agents.attached import runner_connection as connection_module
from bridge.agents.attached.messages import HeartbeatResponse, Push, RegisterResponse
from bridge.agents.attached.runner_connection import AgentEndpoint, CallRefused, ConnectionClosed, connect
from storage.database import Database
from tests.bridge.agents.attached.api_running import SESSION, api
from tests.bridge.agents.attached.running import TIMEOUT, place
from tests.support.loopback_server import Certificates, LoopbackServer
from tests.support.ports import lasting_port

Speak = Callable[[web.WebSocketResponse], Awaitable[None]]


def scripted_node(speak: Speak) -> LoopbackServer:
    """A node that sends what the test says."""

    async def handle(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await speak(socket)
        await socket.close()
        return socket

    return LoopbackServer(handle)


def at(server: LoopbackServer) -> AgentEndpoint:
    return AgentEndpoint(f"http://127.0.0.1:{server.port}", "worker", "token")


async def test_calls_are_answered_and_pushes_arrive(database: Database, tmp_path: Path) -> None:
    """Both are parsed."""
    pushed: asyncio.Queue[Push] = asyncio.Queue()
    async with api(database, tmp_path) as one, connect(await place(one), pushed.put_nowait) as connection:
        listening = asyncio.create_task(connection.listen())
        registered = await connection.call("register", {"session": SESSION}, RegisterResponse)
        assert registered.address == "worker@here"
        await one.node.ask("a")
        async with asyncio.timeout(TIMEOUT):
            push = await pushed.get()
        assert push.task is not None
        with pytest.raises(CallRefused, match="session") as refused:
            await connection.call("heartbeat", {"session": "x"}, HeartbeatResponse)
        assert (refused.value.status, refused.value.is_temporary) == (400, False)
        listening.cancel()


async def test_the_url_of_any_agent() -> None:
    """Its id is escaped."""
    where = AgentEndpoint("https://node.example:7676/", "../a b/ü", "t")
    assert str(where.socket_url) == ("https://node.example:7676/_palaver/v1/agents/..%2Fa%20b%2F%C3%BC/socket")


async def test_an_unreachable_node_is_a_closed_connection() -> None:
    """As is a node that stops responding; both are retried."""
    nobody = AgentEndpoint(f"http://127.0.0.1:{lasting_port()}", "worker", "token")
    with pytest.raises(ConnectionClosed, match="could not be reached: connection refused"):
        async with connect(nobody, lambda push: None):
            pass


async def test_the_advice_about_an_untrusted_certificate(tmp_path: Path) -> None:
    """Most nodes have a development certificate at first."""

    async def silent(socket: web.WebSocketResponse) -> None:
        await socket.receive()

    server = scripted_node(silent)
    files = Certificates(tmp_path).make("localhost")
    async with server.running(files):
        where = AgentEndpoint(f"https://localhost:{server.port}", "worker", "token")
        with pytest.raises(ConnectionClosed, match=r"a certificate that is not valid: .*--authority"):
            async with connect(where, lambda push: None):
                pass


async def test_a_call_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a node that disconnects meanwhile ends the call."""
    monkeypatch.setattr(connection_module, "CALL_TIMEOUT", 0.1)

    async def silent(socket: web.WebSocketResponse) -> None:
        await socket.receive()
        await socket.receive()

    server = scripted_node(silent)
    async with server.running(None), connect(at(server), lambda push: None) as connection:
        listening = asyncio.create_task(connection.listen())
        with pytest.raises(ConnectionClosed, match="did not answer"):
            await connection.call("heartbeat", {}, HeartbeatResponse)
        monkeypatch.setattr(connection_module, "CALL_TIMEOUT", TIMEOUT)
        with pytest.raises(ConnectionClosed, match="closed"):
            await connection.call("heartbeat", {}, HeartbeatResponse)
        with pytest.raises(ConnectionClosed):
            await listening


@pytest.mark.parametrize("text", ["", "[]", "{", '{"task": 1}', '{"id": 1, "status": "x"}', '{"what": 1}'])
async def test_invalid_messages_close_the_connection(text: str) -> None:
    """The peer is not a node, or has another version."""

    async def nonsense(socket: web.WebSocketResponse) -> None:
        await socket.send_str(text)
        await socket.receive()

    server = scripted_node(nonsense)
    async with server.running(None), connect(at(server), lambda push: None) as connection:
        with pytest.raises(ConnectionClosed, match="invalid message"):
            await connection.listen()


async def test_an_unexpected_answer_is_ignored() -> None:
    """It came too late. The reason for closing is taken from the node's last message."""

    async def late(socket: web.WebSocketResponse) -> None:
        await socket.send_str(json.dumps({"id": 99, "answer": {}}))
        await socket.send_str(json.dumps({"id": None, "problem": {"errcode": "X", "error": "y"}, "status": 400}))
        await socket.send_str(json.dumps({"closing": "The node is stopping."}))

    server = scripted_node(late)
    pushed: list[Push] = []
    async with server.running(None), connect(at(server), pushed.append) as connection:
        with pytest.raises(ConnectionClosed, match="The node is stopping"):
            await connection.listen()
    assert [push.closing for push in pushed] == ["The node is stopping."]


async def test_a_server_without_websocket_is_refused() -> None:
    """The error contains the HTTP status."""

    async def page(request: web.Request) -> web.StreamResponse:
        return web.Response(status=502)

    server = LoopbackServer(page)
    async with server.running(None):
        with pytest.raises(CallRefused) as refused:
            async with connect(at(server), lambda push: None):
                pass
    assert (refused.value.status, refused.value.is_temporary) == (502, True)
    assert isinstance(refused.value.__context__, aiohttp.WSServerHandshakeError)
