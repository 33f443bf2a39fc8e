"""Tokens are created, used and revoked."""

import pytest

from bridge.agents.attached.tokens import USE_RECORDED_EVERY_MS, AgentTokens, TokenOwner, parse_token
from storage.agents import tokens as agent_tokens
from storage.database import Database
from storage.errors import LocalError
from tests.support.agents import NOW, Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def tokens(database: Database, clock: Clock) -> AgentTokens:
    return AgentTokens(database, now_ms=clock)


async def test_a_token_identifies_its_owner(tokens: AgentTokens, database: Database) -> None:
    """The database does not contain the secret."""
    token, row = await tokens.create("worker-1", "laptop", None)
    assert await tokens.owner_of(token) == TokenOwner("worker-1", token.token_id)
    assert parse_token(token.text) == token
    async with database.transaction() as connection:
        everything = str(await connection.fetch("TABLE agent_tokens"))
    assert token.text[14:] not in everything
    assert row.note == "laptop"


async def test_a_wrong_secret_is_invalid(tokens: AgentTokens) -> None:
    """With a known id and with an unknown one."""
    token, _ = await tokens.create("worker-1", "", None)
    other, _ = await tokens.create("worker-2", "", None)
    forged = type(token)(token.token_id, other.text)
    assert await tokens.owner_of(forged) is None
    assert await tokens.owner_of(type(token)("0" * 10, token.text)) is None


async def test_a_token_expires(tokens: AgentTokens, clock: Clock) -> None:
    """To the millisecond."""
    token, _ = await tokens.create("worker-1", "", 1)
    assert await tokens.owner_of(token) is not None
    clock.advance(1)
    assert await tokens.owner_of(token) is None


async def test_a_revoked_token_is_invalid_at_once(tokens: AgentTokens) -> None:
    """And listeners get its id."""
    told: list[str] = []
    tokens.on_revoked(told.append)
    token, _ = await tokens.create("worker-1", "", None)
    other, _ = await tokens.create("worker-1", "", None)
    assert await tokens.revoke("worker-1", token.token_id) == [token.token_id] == told
    assert await tokens.owner_of(token) is None
    assert await tokens.owner_of(other) is not None
    await tokens.revoke("worker-1", None)
    assert await tokens.owner_of(other) is None
    for agent_id, token_id in (("worker-2", None), ("worker-1", "no-such-one")):
        with pytest.raises(LocalError, match="has no token"):
            await tokens.revoke(agent_id, token_id)


async def test_its_use_is_recorded_once_a_minute(tokens: AgentTokens, clock: Clock, database: Database) -> None:
    """Not with every request."""
    token, _ = await tokens.create("worker-1", "", None)

    async def used() -> int | None:
        await tokens.owner_of(token)
        [row] = await tokens.list_tokens("worker-1")
        return row.last_used_at

    assert await used() == NOW
    clock.advance(USE_RECORDED_EVERY_MS - 1)
    assert await used() == NOW
    clock.advance(1)
    assert await used() == NOW + USE_RECORDED_EVERY_MS


async def test_invalid_tokens_are_not_created(tokens: AgentTokens, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is a sentence for the operator."""
    with pytest.raises(LocalError, match="must not contain an @"):
        await tokens.create("worker-1@kitchen.local", "", None)
    monkeypatch.setattr(agent_tokens, "MAX_TOKENS", 1)
    await tokens.create("worker-1", "", None)
    with pytest.raises(LocalError, match="has 1 tokens"):
        await tokens.create("worker-1", "", None)
