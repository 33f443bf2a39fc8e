"""`palaver agents token`: what an operator does with the tokens of agents."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from bridge.service.agents.tokens import AgentTokens
from bridge.service.control_socket import Command
from bridge.service.operator.arguments import Arguments
from storage.agent_tokens import TokenRow
from storage.errors import LocalError

DAY_MS: Final = 24 * 3_600_000
MOST_DAYS: Final = 3_650
LONGEST_NOTE: Final = 200


def commands(tokens: AgentTokens) -> Mapping[str, Command]:
    """By the names that the control socket knows them by."""
    return {
        "agents-token-create": partial(create, tokens),
        "agents-token-list": partial(list_tokens, tokens),
        "agents-token-revoke": partial(revoke, tokens),
    }


async def create(tokens: AgentTokens, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The one time that the token itself is said."""
    arguments = Arguments(given)
    note = arguments.optional_text("note") or ""
    if len(note) > LONGEST_NOTE:
        raise LocalError(f"The note has more than {LONGEST_NOTE} characters.", "Write a shorter one.")
    days = None if given.get("days") is None else arguments.number("days", 1, MOST_DAYS)
    lasts_ms = None if days is None else days * DAY_MS
    token, row = await tokens.create(arguments.text("agent"), note, lasts_ms)
    return {**_shown(row, tokens.now_ms()), "token": token.text}


async def list_tokens(tokens: AgentTokens, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of one agent, or of all; those that are not good any more among them."""
    rows = await tokens.kept(Arguments(given).optional_text("agent"))
    now_ms = tokens.now_ms()
    return {"tokens": [_shown(row, now_ms) for row in rows]}


async def revoke(tokens: AgentTokens, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """One of an agent's, or with `all` all of them."""
    arguments = Arguments(given)
    agent_id, token_id = arguments.text("agent"), arguments.optional_text("token_id")
    if (token_id is None) != arguments.flag("all"):
        raise LocalError("Which token is to be revoked?", "Name one by its id, or say --all.")
    return {"agent_id": agent_id, "revoked": sorted(await tokens.revoke(agent_id, token_id))}


def _shown(row: TokenRow, now_ms: int) -> Mapping[str, Any]:
    alive = "good" if row.is_good(now_ms) else "expired"
    return {
        "token_id": row.token_id,
        "agent_id": row.agent_id,
        "state": alive if row.revoked_at is None else "revoked",
        "note": row.note,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "last_used_at": row.last_used_at,
        "revoked_at": row.revoked_at,
    }
