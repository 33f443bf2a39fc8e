"""The connector of offices, on a real database of tokens."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import socketio
from aiohttp import web

from bridge.connectors.interface import Connector, HasRoutes
from bridge.connectors.offices.service import connector as module
from bridge.connectors.offices.service.connector import OfficesConnector
from bridge.connectors.offices.settings import OfficeSettings
from bridge.service.office_tokens import OfficeTokens
from storage.database import Database
from tests.bridge.connectors.offices.service.clients import PATIENCE, Client, Running, serving

NOW = 1_700_000_000_000


@pytest.fixture
async def tokens(database: Database) -> OfficeTokens:
    return OfficeTokens(database, lambda: NOW)


@pytest.fixture
async def running(tokens: OfficeTokens) -> AsyncIterator[Running]:
    problems: list[str] = []
    connector = OfficesConnector(
        OfficeSettings(), tokens, report=lambda sentence, error: problems.append(sentence)
    )
    assert isinstance(connector, Connector)
    assert isinstance(connector, HasRoutes)
    app = web.Application()
    app.add_routes(list(connector.routes()))
    async with serving(app, connector, connector.server, problems) as made:
        yield made


async def ended(client: Client) -> None:
    async with asyncio.timeout(PATIENCE):
        await client.io.wait()


async def test_a_token_of_the_database_lets_in(running: Running, tokens: OfficeTokens) -> None:
    """For what it is made for, and no longer than it holds."""
    token = await tokens.create("a boss", ["agent"], ["kitchen*"])
    agent = await running.client(token)
    assert await agent.join("agent", "boss", "cellar") == [False, "The token is not for this office"]
    assert await agent.join("agent", "boss", "kitchen") == [True, None]
    with pytest.raises(socketio.exceptions.ConnectionError):
        await running.client(token[:-1] + ("0" if token[-1] != "0" else "1"))


async def test_who_is_connected_with_a_revoked_token_leaves(running: Running, tokens: OfficeTokens) -> None:
    """At once, and the others are told."""
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
    running: Running, tokens: OfficeTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A while later; the time of a token that ends is noticed the same way."""
    monkeypatch.setattr(module, "LOOKED_AT_EVERY", 0.05)
    token = await tokens.create("one", ["agent"])
    agent = await running.agent(token=token)
    elsewhere = OfficeTokens(tokens._database, lambda: NOW)
    [row] = await elsewhere.kept()
    await elsewhere.revoke(row.token_id)
    # The look that is under way still waits the usual time.
    another = await tokens.create("two", ["computer"])
    await tokens.revoke(next(row.token_id for row in await tokens.kept() if row.owner == "two"))
    assert another
    await ended(agent)
