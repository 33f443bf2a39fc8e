"""The connector of offices, on a real database of tokens."""

import asyncio
from pathlib import Path

import pytest
import socketio

from bridge.connectors.offices import connector as module
from bridge.connectors.offices.config import Offices
from bridge.connectors.offices.connector import broker_password
from bridge.connectors.offices.service_tokens import OfficeTokens
from tests.bridge.connectors.offices.clients import TIMEOUT, Client
from tests.bridge.connectors.offices.connectors import now_ms, offices_of
from tests.federation.nodes import Node


async def ended(client: Client) -> None:
    async with asyncio.timeout(TIMEOUT):
        await client.io.wait()


async def test_a_token_of_the_database_lets_in(node: Node) -> None:
    """For what it is made for, and no longer than it holds."""
    async with offices_of(node) as (running, connector, tokens):
        assert list(connector.routes())
        assert connector.name == "offices"
        token = await tokens.create("a boss", ["agent"], ["kitchen*"])
        agent = await running.client(token)
        assert await agent.join("agent", "boss", "cellar") == [False, "The token is not for this office"]
        assert await agent.join("agent", "boss", "kitchen") == [True, None]
        with pytest.raises(socketio.exceptions.ConnectionError):
            await running.client(token[:-1] + ("0" if token[-1] != "0" else "1"))


async def test_who_is_connected_with_a_revoked_token_leaves(node: Node) -> None:
    """At once, and the others are told."""
    async with offices_of(node) as (running, _, tokens):
        one, other = await tokens.create("one", ["agent"]), await tokens.create("other", ["computer"])
        agent, computer = await running.agent(token=one), await running.computer(token=other)
        [kept] = [row for row in await tokens.kept() if row.owner == "one"]
        await tokens.revoke(kept.token_id)
        await ended(agent)
        assert await computer.until("notify:leave_office") == {"office_id": "a", "agent": "boss"}
        with pytest.raises(socketio.exceptions.ConnectionError):
            await running.client(one)
        assert await computer.leave() == [True, None]


async def test_what_another_process_has_revoked_is_noticed(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A while later; the time of a token that ends is noticed the same way."""
    monkeypatch.setattr(module, "LOOKED_AT_EVERY", 0.05)
    async with offices_of(node) as (running, _, tokens):
        agent = await running.agent(token=await tokens.create("one", ["agent"]))
        elsewhere = OfficeTokens(node.database, now_ms)
        [row] = await elsewhere.kept()
        await elsewhere.revoke(row.token_id)
        await ended(agent)


async def test_a_second_process_that_hears_nobody_says_so(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one sentence, which says what to do."""
    monkeypatch.setattr(module, "OTHERS_LOOKED_FOR", 1)
    async with offices_of(node) as (first, _, _), offices_of(node) as (second, _, _):
        async with asyncio.timeout(TIMEOUT):
            while not second.problems:
                await asyncio.sleep(0.02)
        assert second.problems == [f"{module.NOT_HEARD} None"]
        second.problems.clear()
        assert first.problems == []


def test_the_password_of_the_broker_comes_from_its_file(tmp_path: Path) -> None:
    """And is not in what can be shown."""
    (tmp_path / "password").write_text("hunter2\n")
    offices = Offices(broker="redis://redis.test:6379/0", broker_password_file=tmp_path / "password")
    assert broker_password(offices) == "hunter2"
    assert broker_password(Offices()) is None
