"""What an operator asks of offices through the control socket: `palaver offices`."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.connectors.offices.calls.chat_command import NoOrder, read_object
from bridge.connectors.offices.calls.direct_call import DEFAULT_SECONDS, DirectCalls
from bridge.connectors.offices.protocol.events import ROLES
from bridge.connectors.offices.protocol.office import AGENT, Member, NoOffice, is_elsewhere, office_name
from bridge.connectors.offices.protocol.relay import LONGEST_CALL
from bridge.connectors.offices.protocol.tools import Outcome, read_result, whole_text
from bridge.connectors.offices.rooms.record_rows import read_body
from bridge.connectors.offices.service_tokens import OfficeTokens
from bridge.connectors.offices.tokens import MOST_PATTERNS, read_token
from bridge.control.server.arguments import Arguments
from bridge.control.socket import Command
from bridge.control.stream import Items, Stream
from bridge.people.requester import OPERATOR
from storage.database import Database
from storage.errors import LocalError
from storage.offices import records as office_records
from storage.offices.records import CallRow
from storage.offices.tokens import OfficeTokenRow

PAGE: Final = 50
MOST: Final = 500
OF_OFFICE: Final = 10
"""Calls that are shown with an office."""

Members = Callable[[], Sequence[Member]]


def commands(members: Members, tokens: OfficeTokens, database: Database) -> Mapping[str, Command]:
    """By the names that the control socket knows them by. `members` are those who are connected now."""
    return {
        "offices-token-create": partial(create, tokens),
        "offices-token-list": partial(list_tokens, tokens),
        "offices-token-revoke": partial(revoke, tokens),
        "offices-list": partial(list_offices, members),
        "offices-show": partial(show, members, database),
        "offices-calls": partial(calls, database),
    }


async def list_offices(members: Members, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Those in which somebody is."""
    offices: dict[str, list[Member]] = {}
    for member in members():
        offices.setdefault(member.office_id, []).append(member)
    return {"offices": [_office(office_id, offices[office_id]) for office_id in sorted(offices)]}


async def show(members: Members, database: Database, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """One of them, with what was called there last; also one that everybody has left."""
    office_id = Arguments(given).text("office")
    there = [member for member in members() if member.office_id == office_id]
    called = await _calls(database, office_id, None, OF_OFFICE)
    if not there and not called:
        raise LocalError(
            "Nobody is in an office of this name, and nothing was called there.",
            "`palaver offices list` shows those in which somebody is.",
        )
    return {**_office(office_id, there), "calls": [_shown_call(row) for row in called]}


async def calls(database: Database, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The newest first. `next` is what `before` must be for the next page, None on the last one."""
    arguments = Arguments(given)
    limit = arguments.number("limit", PAGE, MOST)
    before = arguments.optional_text("before")
    if before is not None and not (before.isascii() and before.isdigit() and len(before) < 19):
        raise LocalError("That is no place to go on from.", "Take the one that the page before named.")
    place = None if before is None else int(before)
    rows = await _calls(database, arguments.optional_text("office"), place, limit + 1)
    now = rows[:limit]
    return {
        "calls": [_shown_call(row) for row in now],
        "next": str(now[-1].position) if len(rows) > limit else None,
    }


async def _calls(database: Database, office_id: str | None, before: int | None, limit: int) -> list[CallRow]:
    async with database.transaction(readonly=True) as connection:
        return await office_records.list_calls(connection, office_id, before, limit)


def _office(office_id: str, there: Sequence[Member]) -> dict[str, Any]:
    """`elsewhere` says of members of other nodes as which users they are there."""
    agents = [member.name for member in there if member.role == AGENT]
    return {
        "office_id": office_id,
        "agent": agents[0] if agents else None,
        "computers": sorted(member.name for member in there if member.role != AGENT),
        "elsewhere": {member.name: member.sid for member in there if is_elsewhere(member)},
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

LONGEST: Final = 1_048_576
"""Characters of the parameters. A frame of the transport has less, and a Computer says so itself."""


def streams(called: DirectCalls | None, node_id: str) -> Mapping[str, Stream]:
    """By the names that the control socket knows them by. `called` is None where no offices are served."""
    return {"offices-call": partial(call, called, node_id)}


async def call(called: DirectCalls | None, node_id: str, given: Mapping[str, Any]) -> Items:
    """One object: what came of it. Everything that can be refused before is."""
    if called is None:
        raise LocalError(
            "This node serves no offices.", "Set `enabled = true` in [offices], and start it again."
        )
    arguments = Arguments(given)
    params = read_object(arguments.optional_text("params", LONGEST) or "{}")
    if isinstance(params, NoOrder):
        raise LocalError(params.sentence, 'Write an object of JSON, like {"a": 1}.')
    said, computer, tool_name = (arguments.text(name) for name in ("office", "computer", "tool"))
    office = office_name(said, (node_id,))
    office_id = said if isinstance(office, NoOffice) else office.office_id
    seconds = arguments.number("timeout", DEFAULT_SECONDS, LONGEST_CALL)
    by = str(AgentAddress(OPERATOR, node_id))
    return _carry_out(called, by, office_id, computer, tool_name, params, seconds)


async def _carry_out(
    calls: DirectCalls,
    by: str,
    office_id: str,
    computer: str,
    tool_name: str,
    params: Mapping[str, Any],
    seconds: int,
) -> Items:
    reason = calls.why_not(office_id, computer, of_all=True)
    if reason is not None:
        yield {
            "outcome": Outcome.NOT_FOUND.value,
            "text": reason,
            "call_id": None,
            "took_ms": None,
            "answer": None,
        }
        return
    called = await calls.call(office_id, computer, tool_name, params, seconds=seconds, by=by)
    outcome, text = whole_text(called.answer)
    yield {
        "outcome": outcome.value,
        "text": text,
        "call_id": called.call.call_id,
        "took_ms": called.took_ms,
        "answer": json.loads(json.dumps(called.answer, default=_in_json)),
    }


def _in_json(value: object) -> str:
    """What came as an attachment."""
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)


# ---- tokens ----------------------------------------------------------------------------------------------

LONGEST_SECS: Final = 3_650 * 24 * 3_600


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
    return {**_shown_token(row, tokens.now_ms()), "token": text}


async def list_tokens(tokens: OfficeTokens, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """All that are kept, those that are not good any more among them."""
    now_ms = tokens.now_ms()
    return {"tokens": [_shown_token(row, now_ms) for row in await tokens.kept()]}


async def revoke(tokens: OfficeTokens, given: Mapping[str, Any]) -> Mapping[str, Any]:
    token_id = Arguments(given).text("token_id")
    await tokens.revoke(token_id)
    return {"revoked": token_id}


def _lasts_ms(arguments: Arguments, given: Mapping[str, Any]) -> int | None:
    if given.get("expires_in_secs") is None:
        return None
    return arguments.number("expires_in_secs", 1, LONGEST_SECS) * 1000


def _shown_token(row: OfficeTokenRow, now_ms: int) -> Mapping[str, Any]:
    alive = "good" if row.is_valid(now_ms) else "expired"
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
