"""The commands of `palaver offices` on the control socket."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.connectors.offices.calls.chat_command import InvalidCommand, read_object
from bridge.connectors.offices.calls.direct_call import DEFAULT_SECONDS, DirectCalls
from bridge.connectors.offices.protocol.events import ROLES
from bridge.connectors.offices.protocol.office import AGENT, InvalidOfficeName, Member, is_remote, parse_office_name
from bridge.connectors.offices.protocol.relay import MAX_TIMEOUT
from bridge.connectors.offices.protocol.tools import Outcome, full_text, read_result
from bridge.connectors.offices.rooms.record_rows import read_body
from bridge.connectors.offices.tokens import MAX_OFFICES, OfficeTokens, read_token
from bridge.control.server.arguments import Arguments
from bridge.control.socket import Command
from bridge.control.stream import Items, Stream
from bridge.people.requester import OPERATOR
from storage.database import Database
from storage.errors import LocalError
from storage.offices import records as office_records
from storage.offices.records import CallRow
from storage.offices.tokens import OfficeTokenRow

PAGE_SIZE: Final = 50
MAX_PAGE_SIZE: Final = 500
CALLS_OF_OFFICE: Final = 10
"""The number of calls that are shown with an office."""

Members = Callable[[], Sequence[Member]]


def commands(members: Members, tokens: OfficeTokens, database: Database) -> Mapping[str, Command]:
    """The commands by name. `members` returns the members that are connected now."""
    return {
        "offices-token-create": partial(create, tokens),
        "offices-token-list": partial(list_tokens, tokens),
        "offices-token-revoke": partial(revoke, tokens),
        "offices-list": partial(list_offices, members),
        "offices-show": partial(show, members, database),
        "offices-calls": partial(calls, database),
    }


async def list_offices(members: Members, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The offices that have members."""
    offices: dict[str, list[Member]] = {}
    for member in members():
        offices.setdefault(member.office_id, []).append(member)
    return {"offices": [_office(office_id, offices[office_id]) for office_id in sorted(offices)]}


async def show(members: Members, database: Database, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """One office and its most recent calls, even if all members have left."""
    office_id = Arguments(given).text("office")
    here = [member for member in members() if member.office_id == office_id]
    called = await _calls(database, office_id, None, CALLS_OF_OFFICE)
    if not here and not called:
        raise LocalError(
            "There is no office of this name with members or recorded calls.",
            "`palaver offices list` shows the offices that have members.",
        )
    return {**_office(office_id, here), "calls": [_shown_call(row) for row in called]}


async def calls(database: Database, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Recorded calls, the newest first. `next` is the value of `before` for the next page, None on the last
    one."""
    arguments = Arguments(given)
    limit = arguments.number("limit", PAGE_SIZE, MAX_PAGE_SIZE)
    before = arguments.optional_text("before")
    if before is not None and not (before.isascii() and before.isdigit() and len(before) < 19):
        raise LocalError("The value of before is not valid.", "Use the value that the previous page named.")
    position = None if before is None else int(before)
    rows = await _calls(database, arguments.optional_text("office"), position, limit + 1)
    page = rows[:limit]
    return {"calls": [_shown_call(row) for row in page], "next": str(page[-1].position) if len(rows) > limit else None}


async def _calls(database: Database, office_id: str | None, before: int | None, limit: int) -> list[CallRow]:
    async with database.transaction(readonly=True) as connection:
        return await office_records.list_calls(connection, office_id, before, limit)


def _office(office_id: str, members: Sequence[Member]) -> dict[str, Any]:
    """`elsewhere` maps the names of members connected to other nodes to their user ids."""
    agents = [member.name for member in members if member.role == AGENT]
    return {
        "office_id": office_id,
        "agent": agents[0] if agents else None,
        "computers": sorted(member.name for member in members if member.role != AGENT),
        "elsewhere": {member.name: member.sid for member in members if is_remote(member)},
    }


def _shown_call(row: CallRow) -> dict[str, Any]:
    call = read_body(row.call)
    answer = None if row.answer is None else read_body(row.answer)
    outcome = None if answer is None else read_result(answer["answer"], call["tool_name"]).outcome.value
    return {
        "call_id": row.call_id,
        "office_id": row.office_id,
        "agent": call["agent"],
        "direct": call.get("direct") is True,
        "computer": call["computer"],
        "tool_name": call["tool_name"],
        "params": call["params"],
        "hidden": call["hidden"],
        "called_at": row.at_ms,
        "outcome": outcome,
        "took_ms": None if answer is None else answer["took_ms"],
    }


# ---- a call by an operator -------------------------------------------------------------------------------

MAX_PARAMS_LENGTH: Final = 1_048_576
"""Characters of the parameters. A transport frame holds less; the Computer reports that itself."""


def streams(calls: DirectCalls | None, node_id: str) -> Mapping[str, Stream]:
    """The streams by name. `calls` is None on a node that serves no offices."""
    return {"offices-call": partial(call, calls, node_id)}


async def call(calls: DirectCalls | None, node_id: str, given: Mapping[str, Any]) -> Items:
    """A stream of one object, the outcome of the call. Invalid arguments are refused before the stream
    begins."""
    if calls is None:
        raise LocalError("This node does not serve offices.", "Set `enabled = true` in [offices] and restart the node.")
    arguments = Arguments(given)
    params = read_object(arguments.optional_text("params", MAX_PARAMS_LENGTH) or "{}")
    if isinstance(params, InvalidCommand):
        raise LocalError(params.reason, 'Write a JSON object, like {"a": 1}.')
    name, computer, tool_name = (arguments.text(argument) for argument in ("office", "computer", "tool"))
    office = parse_office_name(name, (node_id,))
    office_id = name if isinstance(office, InvalidOfficeName) else office.office_id
    seconds = arguments.number("timeout", DEFAULT_SECONDS, MAX_TIMEOUT)
    by = str(AgentAddress(OPERATOR, node_id))
    return _outcome(calls, by, office_id, computer, tool_name, params, seconds)


async def _outcome(
    calls: DirectCalls, by: str, office_id: str, computer: str, tool_name: str, params: Mapping[str, Any], seconds: int
) -> Items:
    reason = calls.why_not(office_id, computer, of_all=True)
    if reason is not None:
        yield {"outcome": Outcome.NOT_FOUND.value, "text": reason, "call_id": None, "took_ms": None, "answer": None}
        return
    result = await calls.call(office_id, computer, tool_name, params, seconds=seconds, by=by)
    outcome, text = full_text(result.answer)
    yield {
        "outcome": outcome.value,
        "text": text,
        "call_id": result.call.call_id,
        "took_ms": result.took_ms,
        "answer": json.loads(json.dumps(result.answer, default=_to_json)),
    }


def _to_json(value: object) -> str:
    """Socket.IO attachments are bytes, which JSON does not have."""
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)


# ---- tokens ----------------------------------------------------------------------------------------------

MAX_LIFETIME_SECS: Final = 3_650 * 24 * 3_600


async def create(tokens: OfficeTokens, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The only answer that contains the token itself. Without roles, the token is for all of them."""
    arguments = Arguments(given)
    roles = arguments.texts("roles") or sorted(ROLES)
    offices = arguments.texts("offices", MAX_OFFICES)
    text = await tokens.create(arguments.text("owner"), roles, offices, _lifetime_ms(arguments, given))
    token = read_token(text)
    assert token is not None, "it was made just now"
    row = await tokens.find(token.token_id)
    assert row is not None, "tokens are deleted a month after their end"
    return {**_shown_token(row, tokens.now_ms()), "token": text}


async def list_tokens(tokens: OfficeTokens, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """All stored tokens, including expired and revoked ones."""
    now_ms = tokens.now_ms()
    return {"tokens": [_shown_token(row, now_ms) for row in await tokens.list_tokens()]}


async def revoke(tokens: OfficeTokens, given: Mapping[str, Any]) -> Mapping[str, Any]:
    token_id = Arguments(given).text("token_id")
    await tokens.revoke(token_id)
    return {"revoked": token_id}


def _lifetime_ms(arguments: Arguments, given: Mapping[str, Any]) -> int | None:
    if given.get("expires_in_secs") is None:
        return None
    return arguments.number("expires_in_secs", 1, MAX_LIFETIME_SECS) * 1000


def _shown_token(row: OfficeTokenRow, now_ms: int) -> Mapping[str, Any]:
    validity = "good" if row.is_valid(now_ms) else "expired"
    return {
        "token_id": row.token_id,
        "owner": row.owner,
        "roles": list(row.roles),
        "offices": list(row.offices),
        "state": validity if row.revoked_at is None else "revoked",
        "made_at": row.made_at,
        "expires_at": row.expires_at,
        "last_used_at": row.last_used_at,
        "revoked_at": row.revoked_at,
    }
