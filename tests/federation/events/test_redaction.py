"""Redaction, by room version (specification, "Redactions" on the page of each)."""

from copy import deepcopy
from typing import Any

import pytest

from federation.events.redaction import redact
from federation.matrix.room_version import ROOM_VERSIONS

ALL = list(ROOM_VERSIONS)
UNTIL_10 = [version for version in ALL if int(version) <= 10]
FROM_11 = ["11", "12"]

EVENT: dict[str, Any] = {
    "type": "m.room.topic",
    "room_id": "!r:a.example",
    "sender": "@alice:a.example",
    "state_key": "",
    "content": {"topic": "gone", "membership": "gone too"},
    "hashes": {"sha256": "x"},
    "signatures": {"a.example": {"ed25519:1": "y"}},
    "depth": 3,
    "prev_events": ["$p"],
    "auth_events": ["$a"],
    "origin_server_ts": 5,
    "event_id": "$e",
    "prev_state": [],
    "origin": "a.example",
    "membership": "join",
    "unsigned": {"age": 1},
    "redacts": "$x",
    "anything": "else",
}
ALWAYS = {
    "type", "room_id", "sender", "state_key", "content", "hashes", "signatures", "depth", "prev_events",
    "auth_events", "origin_server_ts", "event_id",
}  # fmt: skip


@pytest.mark.parametrize("version", ALL)
def test_the_top_level(version: str) -> None:
    """Until room version 10 `prev_state`, `origin` and `membership` are kept as well; unknown properties are
    removed."""
    redacted = redact(EVENT, ROOM_VERSIONS[version])
    assert set(redacted) == (ALWAYS if version in FROM_11 else ALWAYS | {"prev_state", "origin", "membership"})
    assert redacted["content"] == {}
    assert {key: redacted[key] for key in ALWAYS - {"content"}} == {key: EVENT[key] for key in ALWAYS - {"content"}}


def test_redacting_makes_a_copy() -> None:
    before = deepcopy(EVENT)
    redact(EVENT, ROOM_VERSIONS["12"])
    assert before == EVENT


SIGNED = {"mxid": "@b:b.example", "token": "t", "signatures": {}}
LEVELS = {"ban": 1, "events": {}, "events_default": 0, "kick": 2, "redact": 3, "state_default": 4}
LEVELS |= {"users": {}, "users_default": 5}


@pytest.mark.parametrize(
    ("type_", "content", "kept", "versions"),
    [
        ("m.room.member", {"membership": "join", "displayname": "x"}, {"membership": "join"}, ALL),
        ("m.room.member", {"join_authorised_via_users_server": "@a:a"}, {}, ["3", "6", "8"]),
        (
            "m.room.member",
            {"join_authorised_via_users_server": "@a:a"},
            {"join_authorised_via_users_server": "@a:a"},
            ["9", "10", "11", "12"],
        ),
        ("m.room.member", {"third_party_invite": {"signed": SIGNED, "display_name": "x"}}, {}, UNTIL_10),
        (
            "m.room.member",
            {"third_party_invite": {"signed": SIGNED, "display_name": "x"}},
            {"third_party_invite": {"signed": SIGNED}},
            FROM_11,
        ),
        ("m.room.member", {"third_party_invite": {"a": 1}}, {"third_party_invite": {}}, FROM_11),
        ("m.room.member", {"third_party_invite": "x"}, {}, ALL),
        ("m.room.create", {"creator": "@a:a", "room_version": "3"}, {"creator": "@a:a"}, UNTIL_10),
        ("m.room.create", {"creator": "@a:a", "room_version": "3"}, {"creator": "@a:a", "room_version": "3"}, FROM_11),
        ("m.room.join_rules", {"join_rule": "x", "allow": []}, {"join_rule": "x"}, ["3", "4", "5", "6", "7"]),
        (
            "m.room.join_rules",
            {"join_rule": "x", "allow": [], "b": 1},
            {"join_rule": "x", "allow": []},
            ["8", "9", "10", "11", "12"],
        ),
        ("m.room.power_levels", {**LEVELS, "invite": 6, "notifications": {}}, LEVELS, UNTIL_10),
        ("m.room.power_levels", {**LEVELS, "invite": 6, "notifications": {}}, {**LEVELS, "invite": 6}, FROM_11),
        ("m.room.history_visibility", {"history_visibility": "x", "b": 1}, {"history_visibility": "x"}, ALL),
        ("m.room.aliases", {"aliases": ["#a:a"], "b": 1}, {"aliases": ["#a:a"]}, ["3", "4", "5"]),
        ("m.room.aliases", {"aliases": ["#a:a"], "b": 1}, {}, ["6", "7", "8", "9", "10", "11", "12"]),
        ("m.room.redaction", {"redacts": "$x", "reason": "y"}, {}, UNTIL_10),
        ("m.room.redaction", {"redacts": "$x", "reason": "y"}, {"redacts": "$x"}, FROM_11),
        ("m.room.server_acl", {"allow": ["*"]}, {}, ALL),
        ("m.room.message", {"body": "x", "membership": "join", "creator": "y"}, {}, ALL),
    ],
)
def test_the_content(type_: str, content: dict[str, Any], kept: dict[str, Any], versions: list[str]) -> None:
    """Which content is kept, by type and version."""
    for version in versions:
        assert redact({**EVENT, "type": type_, "content": content}, ROOM_VERSIONS[version])["content"] == kept


def test_the_room_id_of_create_events() -> None:
    """Room version 12: removed from every `m.room.create`, whatever its state key."""
    for state_key in ("", "other"):
        event = {**EVENT, "type": "m.room.create", "state_key": state_key}
        assert "room_id" not in redact(event, ROOM_VERSIONS["12"])
        assert "room_id" in redact(event, ROOM_VERSIONS["11"])


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("content", [None, [], "x", 3])
def test_content_that_is_not_an_object(version: str, content: Any) -> None:
    """Nothing is kept, and nothing is raised."""
    assert redact({"type": "m.room.member", "content": content}, ROOM_VERSIONS[version])["content"] == {}
    assert redact({"type": ["unhashable"], "content": {}}, ROOM_VERSIONS[version])["content"] == {}
