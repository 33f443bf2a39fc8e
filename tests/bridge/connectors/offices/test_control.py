"""Who is in which office now, and what has been called there."""

import json
from typing import Any

import pytest

from bridge.connectors.offices.control import commands
from bridge.connectors.offices.protocol.office import AGENT, COMPUTER, Member
from bridge.connectors.offices.service_tokens import OfficeTokens
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


async def asked(database: Database, command: str, members: list[Member] = MEMBERS, **given: Any) -> Any:
    return await commands(lambda: members, OfficeTokens(database, Clock()), database)[command](given)


async def put(database: Database, count: int) -> None:
    """So many calls, of which all but the last have been answered."""
    records = []
    for number in range(count):
        records.append(NewRecord("kitchen", "called", f"{number}", json.dumps(CALL).encode(), number))
        if number < count - 1:
            records.append(NewRecord("kitchen", "answered", f"{number}", json.dumps(DONE).encode(), number))
    async with database.transaction() as connection:
        await insert_records(connection, records)


async def test_offices_are_listed_with_who_is_in_them(database: Database) -> None:
    """Those in which nobody is are none; members of other nodes are named with their users."""
    elsewhere = {"knife": "@stove/knife:cellar.test"}
    assert (await asked(database, "offices-list"))["offices"] == [
        {"office_id": "cellar", "agent": None, "computers": ["barrel"], "elsewhere": {}},
        {"office_id": "kitchen", "agent": "boss", "computers": ["knife", "pan"], "elsewhere": elsewhere},
    ]
    assert (await asked(database, "offices-list", []))["offices"] == []


async def test_who_was_no_member_is_named_as_that(database: Database) -> None:
    """Members may be called as anybody is."""
    called = NewRecord("kitchen", "called", "1", json.dumps({**CALL, "direct": True}).encode(), 1)
    async with database.transaction() as connection:
        await insert_records(connection, [called])
    await put(database, 1)
    calls = (await asked(database, "offices-calls"))["calls"]
    assert [(one["agent"], one["direct"]) for one in calls] == [("boss", False), ("boss", True)]


async def test_an_office_is_shown_with_its_last_calls(database: Database) -> None:
    """Also when everybody has left it; one of which nothing is known is no office."""
    await put(database, 12)
    shown = await asked(database, "offices-show", office="kitchen")
    assert (shown["agent"], len(shown["calls"])) == ("boss", 10)
    assert (await asked(database, "offices-show", [], office="kitchen"))["agent"] is None
    with pytest.raises(LocalError, match="Nobody is in an office of this name"):
        await asked(database, "offices-show", office="attic")


async def test_calls_are_listed_page_by_page(database: Database) -> None:
    """The newest first, with what became of each."""
    await put(database, 5)
    page = await asked(database, "offices-calls", limit=3)
    assert [(one["call_id"], one["outcome"], one["took_ms"]) for one in page["calls"]] == [
        ("4", None, None),
        ("3", "done", 7),
        ("2", "done", 7),
    ]
    rest = await asked(database, "offices-calls", limit=3, before=page["next"])
    assert [one["call_id"] for one in rest["calls"]] == ["1", "0"]
    assert rest["next"] is None
    assert (await asked(database, "offices-calls", office="cellar"))["calls"] == []
    for odd in ("x", "-1", "9" * 30, "٣"):
        with pytest.raises(LocalError, match="no place to go on from"):
            await asked(database, "offices-calls", before=odd)
