"""The token commands."""

from typing import Any

import pytest

from bridge.agents.attached.tokens import DAY_MS, AgentTokens, TokenOwner, commands, parse_token
from storage.database import Database
from storage.errors import LocalError
from tests.support.agents import NOW, Clock


async def test_the_life_of_a_token(database: Database) -> None:
    """Created, listed, revoked; the token itself is shown once."""
    clock = Clock()
    tokens = AgentTokens(database, now_ms=clock)
    known = commands(tokens)
    made = await known["agents-token-create"]({"agent": "worker-1", "note": "laptop", "days": 30})
    token = parse_token(made["token"])
    assert token is not None
    assert await tokens.owner_of(token) == TokenOwner("worker-1", made["token_id"])
    await known["agents-token-create"]({"agent": "other"})
    listed = (await known["agents-token-list"]({}))["tokens"]
    assert [(one["agent_id"], one["state"]) for one in listed] == [("other", "good"), ("worker-1", "good")]
    [shown] = (await known["agents-token-list"]({"agent": "worker-1"}))["tokens"]
    assert shown == {
        "token_id": token.token_id,
        "agent_id": "worker-1",
        "state": "good",
        "note": "laptop",
        "created_at": NOW,
        "expires_at": NOW + 30 * DAY_MS,
        "last_used_at": NOW,
        "revoked_at": None,
    }
    clock.advance(30 * DAY_MS)
    [shown] = (await known["agents-token-list"]({"agent": "worker-1"}))["tokens"]
    assert shown["state"] == "expired"
    revoked = await known["agents-token-revoke"]({"agent": "worker-1", "token_id": token.token_id})
    assert revoked == {"agent_id": "worker-1", "revoked": [token.token_id]}
    assert len((await known["agents-token-revoke"]({"agent": "other", "all": True}))["revoked"]) == 1
    states = [one["state"] for one in (await known["agents-token-list"]({}))["tokens"]]
    assert states == ["revoked", "revoked"]


@pytest.mark.parametrize(
    ("command", "given", "part"),
    [
        ("agents-token-create", {}, "needs agent"),
        ("agents-token-create", {"agent": "a@b"}, "must not contain an @"),
        ("agents-token-create", {"agent": "a\0"}, "not a valid name"),
        ("agents-token-create", {"agent": "a", "days": 0}, "not a number"),
        ("agents-token-create", {"agent": "a", "note": "x" * 201}, "note has more"),
        ("agents-token-revoke", {"agent": "a"}, "Either one token"),
        ("agents-token-revoke", {"agent": "a", "token_id": "x", "all": True}, "Either one token"),
        ("agents-token-revoke", {"agent": "a", "token_id": "x"}, "has no token x"),
    ],
)
async def test_invalid_commands_get_an_error(
    database: Database, command: str, given: dict[str, Any], part: str
) -> None:
    """A sentence for the operator."""
    with pytest.raises(LocalError, match=part):
        await commands(AgentTokens(database, now_ms=Clock()))[command](given)
