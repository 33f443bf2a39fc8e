"""`palaver offices`: who is in which office now, and what has been called there."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from bridge.connectors.offices.office import AGENT, Member, is_elsewhere
from bridge.connectors.offices.service.record_rows import read_body
from bridge.connectors.offices.tool_result import read_result
from bridge.service.control_socket import Command
from bridge.service.operator.arguments import Arguments
from storage import office_records
from storage.database import Database
from storage.errors import LocalError
from storage.office_records import CallRow

PAGE: Final = 50
MOST: Final = 500
OF_OFFICE: Final = 10
"""Calls that are shown with an office."""

Members = Callable[[], Sequence[Member]]


def commands(members: Members, database: Database) -> Mapping[str, Command]:
    """By the names that the control socket knows them by. `members` are those who are connected now."""
    return {
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
    return {**_office(office_id, there), "calls": [_call(row) for row in called]}


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
        "calls": [_call(row) for row in now],
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


def _call(row: CallRow) -> dict[str, Any]:
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
