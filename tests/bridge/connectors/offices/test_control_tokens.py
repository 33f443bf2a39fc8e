"""`palaver offices token` on the control socket."""

from collections.abc import Mapping
from typing import Any

import pytest

from bridge.connectors.offices.control import MAX_LIFETIME_SECS, commands
from bridge.connectors.offices.tokens import Grant, OfficeTokens, read_token
from bridge.control.socket import Command
from storage.database import Database
from storage.errors import LocalError
from tests.support.agents import NOW, Clock

DAY = 86_400


def token_commands(tokens: OfficeTokens, database: Database) -> Mapping[str, Command]:
    return commands(tuple, tokens, database)


async def test_the_life_of_a_token(database: Database) -> None:
    """It is created, listed, expires and is revoked. Only the first answer contains the token itself."""
    clock = Clock()
    tokens = OfficeTokens(database, clock)
    known = token_commands(tokens, database)
    made = await known["offices-token-create"](
        {"owner": "alice", "roles": ["agent"], "offices": ["kitchen", "team-*"], "expires_in_secs": 30 * DAY}
    )
    token = read_token(made["token"])
    assert token is not None
    assert await tokens.check(made["token"]) == Grant(
        made["token_id"], "alice", frozenset({"agent"}), ("kitchen", "team-*")
    )
    [shown] = (await known["offices-token-list"]({}))["tokens"]
    assert shown == {
        "token_id": token.token_id,
        "owner": "alice",
        "roles": ["agent"],
        "offices": ["kitchen", "team-*"],
        "state": "good",
        "made_at": NOW,
        "expires_at": NOW + 30 * DAY * 1000,
        "last_used_at": NOW,
        "revoked_at": None,
    }
    clock.advance(30 * DAY * 1000)
    [shown] = (await known["offices-token-list"]({}))["tokens"]
    assert shown["state"] == "expired"
    revoked = await known["offices-token-revoke"]({"token_id": token.token_id})
    assert revoked == {"revoked": token.token_id}
    [shown] = (await known["offices-token-list"]({}))["tokens"]
    assert (shown["state"], shown["revoked_at"]) == ("revoked", NOW + 30 * DAY * 1000)


async def test_the_defaults_of_a_token(database: Database) -> None:
    """Both roles, all offices, no expiry."""
    made = await token_commands(OfficeTokens(database, Clock()), database)["offices-token-create"]({"owner": "alice"})
    assert (made["roles"], made["offices"], made["expires_at"]) == (["agent", "computer"], [], None)


@pytest.mark.parametrize(
    ("command", "given", "part"),
    [
        ("offices-token-create", {}, "needs owner"),
        ("offices-token-create", {"owner": 7}, "owner is not a valid name"),
        ("offices-token-create", {"owner": "a\0"}, "owner is not a valid name"),
        ("offices-token-create", {"owner": "a\ud800"}, "owner is not a valid name"),
        ("offices-token-create", {"owner": "a\nb"}, "An owner is"),
        ("offices-token-create", {"owner": "a", "roles": "agent"}, "roles is not a list"),
        ("offices-token-create", {"owner": "a", "roles": ["admin"]}, "Unknown role admin"),
        ("offices-token-create", {"owner": "a", "roles": [["agent"]]}, "roles is not a valid name"),
        ("offices-token-create", {"owner": "a", "offices": {"a": 1}}, "offices is not a list"),
        ("offices-token-create", {"owner": "a", "offices": ["a"] * 101}, "offices is not a list"),
        ("offices-token-create", {"owner": "a", "offices": [""]}, "needs offices"),
        ("offices-token-create", {"owner": "a", "expires_in_secs": 0}, "not a number"),
        ("offices-token-create", {"owner": "a", "expires_in_secs": True}, "not a number"),
        ("offices-token-create", {"owner": "a", "expires_in_secs": "30d"}, "not a number"),
        ("offices-token-create", {"owner": "a", "expires_in_secs": MAX_LIFETIME_SECS + 1}, "not a number"),
        ("offices-token-revoke", {}, "needs token_id"),
        ("offices-token-revoke", {"token_id": ["x"]}, "token_id is not a valid name"),
        ("offices-token-revoke", {"token_id": "x"}, "has this id"),
    ],
)
async def test_invalid_arguments_are_refused(
    database: Database, command: str, given: dict[str, Any], part: str
) -> None:
    """And no token is created."""
    tokens = OfficeTokens(database, Clock())
    with pytest.raises(LocalError, match=part):
        await token_commands(tokens, database)[command](given)
    assert await tokens.list_tokens() == []
