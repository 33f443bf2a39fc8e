"""Parsing of typing, receipt and presence EDUs."""

from typing import Any

import pytest

from federation.transactions.edu_parsing import MalformedEdu, parse_edu
from federation.transactions.edus import MAX_PRESENCES, MAX_RECEIPTS, Presence, Receipt, Receipts, Typing, UserPresence

ORIGIN = "b.example"
BOB, EVE = "@bob:b.example", "@eve:e.example"
ROOM = "!room:a.example"


def edu(edu_type: str, content: Any) -> dict[str, Any]:
    return {"edu_type": edu_type, "content": content}


def test_typing_is_parsed() -> None:
    """A typing EDU has a room, a user and a flag."""
    parsed = parse_edu(edu("m.typing", {"room_id": ROOM, "user_id": BOB, "typing": True}), ORIGIN)
    assert parsed == Typing(ROOM, BOB, True)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"user_id": EVE}, "user_id"),
        ({"room_id": "room"}, "room_id"),
        ({"typing": 1}, "typing"),
        ({"typing": None}, "typing"),
    ],
)
def test_invalid_typing_is_malformed(change: dict[str, Any], problem: str) -> None:
    """The user must belong to the sending server, and every field is required."""
    content = {"room_id": ROOM, "user_id": BOB, "typing": True, **change}
    malformed = parse_edu(edu("m.typing", content), ORIGIN)
    assert isinstance(malformed, MalformedEdu)
    assert problem in malformed.problem


def receipt(ts: Any = 5, **data: Any) -> dict[str, Any]:
    return {"data": {"ts": ts, **data}, "event_ids": ["$e"]}


def test_receipts_are_parsed_by_room_and_user() -> None:
    """There is one receipt for each user and room, with its thread if it has one."""
    content = {
        ROOM: {"m.read": {BOB: receipt()}},
        "!other:a.example": {"m.read": {BOB: receipt(7, thread_id="$t")}},
        "!third:a.example": {"m.read": {BOB: receipt(8, thread_id="main")}},
    }
    assert parse_edu(edu("m.receipt", content), ORIGIN) == Receipts(
        (
            Receipt(ROOM, BOB, "$e", 5),
            Receipt("!other:a.example", BOB, "$e", 7, "$t"),
            Receipt("!third:a.example", BOB, "$e", 8, "main"),
        )
    )


@pytest.mark.parametrize(
    "content",
    [
        {ROOM: {"m.read": {EVE: receipt()}}},
        {ROOM: {"m.read.private": {BOB: receipt()}}},
        {ROOM: {"m.read": [receipt()]}},
        {ROOM: []},
        {"room": {"m.read": {BOB: receipt()}}},
        {ROOM: {"m.read": {BOB: "now"}}},
        {ROOM: {"m.read": {BOB: {"data": {"ts": 5}, "event_ids": []}}}},
        {ROOM: {"m.read": {BOB: {"data": {"ts": 5}, "event_ids": "$e"}}}},
        {ROOM: {"m.read": {BOB: {"data": {"ts": 5}, "event_ids": [{}]}}}},
        {ROOM: {"m.read": {BOB: {"data": {"ts": "5"}, "event_ids": ["$e"]}}}},
        {ROOM: {"m.read": {BOB: {"data": 5, "event_ids": ["$e"]}}}},
        {ROOM: {"m.read": {BOB: receipt(thread_id=["$t"])}}},
    ],
)
def test_an_invalid_receipt_is_left_out(content: dict[str, Any]) -> None:
    """Private, foreign users' and malformed receipts are left out; valid ones in the same EDU stay."""
    beside = {"!good:a.example": {"m.read": {BOB: receipt()}}}
    assert parse_edu(edu("m.receipt", {**content, **beside}), ORIGIN) == Receipts(
        (Receipt("!good:a.example", BOB, "$e", 5),)
    )


def test_the_number_of_receipts_is_limited() -> None:
    """Receipts beyond `MAX_RECEIPTS` are ignored."""
    content = {f"!{number}:a.example": {"m.read": {BOB: receipt()}} for number in range(MAX_RECEIPTS + 1)}
    receipts = parse_edu(edu("m.receipt", content), ORIGIN)
    assert isinstance(receipts, Receipts)
    assert len(receipts.receipts) == MAX_RECEIPTS


def test_presence_is_parsed_user_by_user() -> None:
    """Only user and presence are required; an invalid optional field counts as missing."""
    push = [
        {"user_id": BOB, "presence": "online", "last_active_ago": 5, "currently_active": True, "status_msg": "hm"},
        {
            "user_id": "@b2:b.example",
            "presence": "offline",
            "last_active_ago": -1,
            "currently_active": 1,
            "status_msg": "\0",
        },
        {"user_id": "@b3:b.example", "presence": "unavailable", "status_msg": "x" * 2000},
    ]
    assert parse_edu(edu("m.presence", {"push": push}), ORIGIN) == Presence(
        (
            UserPresence(BOB, "online", 5, True, "hm"),
            UserPresence("@b2:b.example", "offline"),
            UserPresence("@b3:b.example", "unavailable"),
        )
    )


@pytest.mark.parametrize(
    "update",
    [
        {"user_id": EVE, "presence": "online"},
        {"user_id": BOB, "presence": "busy"},
        {"user_id": BOB, "presence": ["online"]},
        {"user_id": BOB},
        "online",
    ],
)
def test_invalid_presence_is_left_out(update: Any) -> None:
    """An update for another server's user, or with an unknown state, is left out."""
    beside = {"user_id": BOB, "presence": "online"}
    assert parse_edu(edu("m.presence", {"push": [update, beside]}), ORIGIN) == Presence((UserPresence(BOB, "online"),))


def test_the_number_of_presence_updates_is_limited() -> None:
    """At most `MAX_PRESENCES` users are read; a `push` that is not a list is malformed."""
    push = [{"user_id": f"@{number}:b.example", "presence": "online"} for number in range(MAX_PRESENCES + 1)]
    presence = parse_edu(edu("m.presence", {"push": push}), ORIGIN)
    assert isinstance(presence, Presence)
    assert len(presence.users) == MAX_PRESENCES
    assert isinstance(parse_edu(edu("m.presence", {"push": {}}), ORIGIN), MalformedEdu)
