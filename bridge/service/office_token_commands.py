"""`palaver offices token`: what an operator does with the tokens for offices."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from bridge.connectors.offices.shape import ROLES
from bridge.connectors.offices.tokens import MOST_PATTERNS, read_token
from bridge.service.control_socket import Command
from bridge.service.office_tokens import OfficeTokens
from bridge.service.operator.arguments import Arguments
from storage.office_tokens import OfficeTokenRow

LONGEST_SECS: Final = 3_650 * 24 * 3_600


def commands(tokens: OfficeTokens) -> Mapping[str, Command]:
    """By the names that the control socket knows them by."""
    return {
        "offices-token-create": partial(create, tokens),
        "offices-token-list": partial(list_tokens, tokens),
        "offices-token-revoke": partial(revoke, tokens),
    }


async def create(tokens: OfficeTokens, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The one time that the token itself is said. Who names no role gets a token for each of them."""
    arguments = Arguments(given)
    roles = arguments.texts("roles") or sorted(ROLES)
    offices = arguments.texts("offices", MOST_PATTERNS)
    text = await tokens.create(arguments.text("owner"), roles, offices, _lasts_ms(arguments, given))
    token = read_token(text)
    assert token is not None, "it was made just now"
    row = await tokens.find(token.token_id)
    assert row is not None, "one is forgotten a month after its end"
    return {**_shown(row, tokens.now_ms()), "token": text}


async def list_tokens(tokens: OfficeTokens, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """All that are kept, those that are not good any more among them."""
    now_ms = tokens.now_ms()
    return {"tokens": [_shown(row, now_ms) for row in await tokens.kept()]}


async def revoke(tokens: OfficeTokens, given: Mapping[str, Any]) -> Mapping[str, Any]:
    token_id = Arguments(given).text("token_id")
    await tokens.revoke(token_id)
    return {"revoked": token_id}


def _lasts_ms(arguments: Arguments, given: Mapping[str, Any]) -> int | None:
    if given.get("expires_in_secs") is None:
        return None
    return arguments.number("expires_in_secs", 1, LONGEST_SECS) * 1000


def _shown(row: OfficeTokenRow, now_ms: int) -> Mapping[str, Any]:
    alive = "good" if row.is_good(now_ms) else "expired"
    return {
        "token_id": row.token_id,
        "owner": row.owner,
        "roles": list(row.roles),
        "offices": list(row.offices),
        "state": alive if row.revoked_at is None else "revoked",
        "made_at": row.made_at,
        "expires_at": row.expires_at,
        "last_used_at": row.last_used_at,
        "revoked_at": row.revoked_at,
    }
