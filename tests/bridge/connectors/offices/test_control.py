"""`palaver offices list`, `show` and `calls` on the control socket."""

import json
from typing import Any

import pytest

from bridge.connectors.offices.control import commands
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.tokens import OfficeTokens
from storage.database import Database
from storage.errors import LocalError
from storage.offices.records import NewRecord, insert_records
from tests.support.agents import Clock

MEMBERS = [
    Member("1", AGENT, "boss", "kitchen"),
    Member("2", COMPUTER, "pan", "kitchen"),
    Member("@stove/knife:cellar.test", COMPUTER, "knife", "kitchen"),
    Member("4", COMPUTER, "barrel", "cellar"),
]
CALL = {"req_id": "r", "agent": "boss", "computer": "pan", "tool_name": "fry", "params": {}, "hidden": []}
DONE = {"took_ms": 7, "answer": {"content": [], "isError": False}}


async def run(database: Database, command: str, members: list[Member] = MEMBERS, **given: Any) -> Any:
    return await commands(lambda: members, OfficeTokens(database, Clock()), database)[command](given)


async def insert_calls(database: Database, count: int) -> None:
    """All but the last have answers."""
    records = []
    for number in range(count):
        records.append(NewRecord("kitchen", "called", f"{number}", json.dumps(CALL).encode(), number))
        if number < count - 1:
            records.append(NewRecord("kitchen", "answered", f"{number}", json.dumps(DONE).encode(), number))
    async with database.transaction() as connection:
        await insert_records(connection, records)


async def test_offices_are_listed_with_their_members(database: Database) -> None:
    """Offices without members are not listed. Members of other nodes have user ids."""
    elsewhere = {"knife": "@stove/knife:cellar.test"}
    assert (await run(database, "offices-list"))["offices"] == [
        {"office_id": "cellar", "agent": None, "computers": ["barrel"], "elsewhere": {}},
        {"office_id": "kitchen", "agent": "boss", "computers": ["knife", "pan"], "elsewhere": elsewhere},
    ]
    assert (await run(database, "offices-list", []))["offices"] == []


async def test_direct_calls_are_marked(database: Database) -> None:
    """Their requesters may have the same name as a member."""
    called = NewRecord("kitchen", "called", "1", json.dumps({**CALL, "direct": True}).encode(), 1)
    async with database.transaction() as connection:
        await insert_records(connection, [called])
    await insert_calls(database, 1)
    calls = (await run(database, "offices-calls"))["calls"]
    assert [(one["agent"], one["direct"]) for one in calls] == [("boss", False), ("boss", True)]


async def test_an_office_is_shown_with_its_last_calls(database: Database) -> None:
    """Also after all members have left. An office without members and calls is unknown."""
    await insert_calls(database, 12)
    shown = await run(database, "offices-show", office="kitchen")
    assert (shown["agent"], len(shown["calls"])) == ("boss", 10)
    assert (await run(database, "offices-show", [], office="kitchen"))["agent"] is None
    with pytest.raises(LocalError, match="no office of this name"):
        await run(database, "offices-show", office="attic")


async def test_calls_are_listed_in_pages(database: Database) -> None:
    """The newest first, with their outcomes."""
    await insert_calls(database, 5)
    page = await run(database, "offices-calls", limit=3)
    assert [(one["call_id"], one["outcome"], one["took_ms"]) for one in page["calls"]] == [
        ("4", None, None),
        ("3", "done", 7),
        ("2", "done", 7),
    ]
    rest = await run(database, "offices-calls", limit=3, before=page["next"])
    assert [one["call_id"] for one in rest["calls"]] == ["1", "0"]
    assert rest["next"] is None
    assert (await run(database, "offices-calls", office="cellar"))["calls"] == []
    for odd in ("x", "-1", "9" * 30, "٣"):
        with pytest.raises(LocalError, match="before is not valid"):
            await run(database, "offices-calls", before=odd)
