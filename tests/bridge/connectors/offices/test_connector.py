"""The connector, with tokens in a real database."""

import asyncio
from pathlib import Path

import pytest
import socketio

from bridge.connectors.offices import connector as module
from bridge.connectors.offices.config import Offices
from bridge.connectors.offices.connector import broker_password
from bridge.connectors.offices.tokens import OfficeTokens
from tests.bridge.connectors.offices.clients import TIMEOUT, Client
from tests.bridge.connectors.offices.connectors import now_ms, offices_of
from tests.federation.nodes import Node


async def disconnected(client: Client) -> None:
    async with asyncio.timeout(TIMEOUT):
        await client.io.wait()


async def test_a_stored_token_admits_a_client(node: Node) -> None:
    """For the roles and offices that it allows."""
    async with offices_of(node) as (running, connector, tokens):
        assert list(connector.routes())
        assert connector.name == "offices"
        token = await tokens.create("a boss", ["agent"], ["kitchen*"])
        agent = await running.client(token)
        assert (await agent.join("agent", "boss", "cellar"))[0] is False
        assert await agent.join("agent", "boss", "kitchen") == [True, None]
        with pytest.raises(socketio.exceptions.ConnectionError):
            await running.client(token[:-1] + ("0" if token[-1] != "0" else "1"))


async def test_clients_with_a_revoked_token_are_disconnected(node: Node) -> None:
    """At once, and the other members are notified."""
    async with offices_of(node) as (running, _, tokens):
        one, other = await tokens.create("one", ["agent"]), await tokens.create("other", ["computer"])
        agent, computer = await running.agent(token=one), await running.computer(token=other)
        [row] = [row for row in await tokens.list_tokens() if row.owner == "one"]
        await tokens.revoke(row.token_id)
        await disconnected(agent)
        assert await computer.wait_for("notify:leave_office") == {"office_id": "a", "agent": "boss"}
        with pytest.raises(socketio.exceptions.ConnectionError):
            await running.client(one)
        assert await computer.leave() == [True, None]


async def test_a_token_revoked_by_another_process_is_noticed(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while, in the same way as an expired token."""
    monkeypatch.setattr(module, "TOKEN_CHECK_INTERVAL", 0.05)
    async with offices_of(node) as (running, _, tokens):
        agent = await running.agent(token=await tokens.create("one", ["agent"]))
        elsewhere = OfficeTokens(node.database, now_ms)
        [row] = await elsewhere.list_tokens()
        await elsewhere.revoke(row.token_id)
        await disconnected(agent)


async def test_two_unconnected_processes_are_reported(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the second one."""
    monkeypatch.setattr(module, "SERVING_ATTEMPTS", 1)
    async with offices_of(node) as (first, _, _), offices_of(node) as (second, _, _):
        async with asyncio.timeout(TIMEOUT):
            while not second.problems:
                await asyncio.sleep(0.02)
        assert second.problems == [f"{module.NOT_CONNECTED} None"]
        second.problems.clear()
        assert first.problems == []


def test_the_password_of_the_broker_is_read_from_its_file(tmp_path: Path) -> None:
    """It is not part of the configuration."""
    (tmp_path / "password").write_text("hunter2\n")
    offices = Offices(broker="redis://redis.test:6379/0", broker_password_file=tmp_path / "password")
    assert broker_password(offices) == "hunter2"
    assert broker_password(Offices()) is None
