"""The selection of auth events."""

from typing import Any

import pytest

from federation.auth_rules import auth_event_keys, required_state
from federation.auth_rules.auth_event_selection import JOIN_RULES, POWER_LEVELS
from federation.events import CREATE, StateKey, Template
from federation.matrix.room_version import ROOM_VERSIONS
from tests.support.rooms import ALICE, BOB, CAROL

ALWAYS: list[StateKey] = [CREATE, POWER_LEVELS, ("m.room.member", ALICE)]
OF_BOB: StateKey = ("m.room.member", BOB)
OF_CAROL: StateKey = ("m.room.member", CAROL)
OF_TOKEN: StateKey = ("m.room.third_party_invite", "t")
ALL = list(ROOM_VERSIONS)
RESTRICTED = ["8", "9", "10", "11", "12"]


def template(type_: str, content: dict[str, Any], state_key: str | None) -> Template:
    return Template(type_, ALICE, content, 1, state_key=state_key)


@pytest.mark.parametrize(
    ("type_", "content", "state_key", "more", "versions"),
    [
        ("m.room.message", {}, None, [], ALL),
        ("m.room.topic", {}, "", [], ALL),
        ("m.room.power_levels", {}, "", [], ALL),
        ("m.room.member", {"membership": "join"}, ALICE, [JOIN_RULES], ALL),
        ("m.room.member", {"membership": "join"}, BOB, [OF_BOB, JOIN_RULES], ALL),
        ("m.room.member", {"membership": "invite"}, BOB, [OF_BOB, JOIN_RULES], ALL),
        ("m.room.member", {"membership": "knock"}, ALICE, [JOIN_RULES], ALL),
        ("m.room.member", {"membership": "leave"}, ALICE, [], ALL),
        ("m.room.member", {"membership": "leave"}, BOB, [OF_BOB], ALL),
        ("m.room.member", {"membership": "ban"}, BOB, [OF_BOB], ALL),
        ("m.room.member", {"membership": "unknown"}, BOB, [OF_BOB], ALL),
        ("m.room.member", {}, BOB, [OF_BOB], ALL),
        ("m.room.member", {"membership": "join"}, None, [JOIN_RULES], ALL),
        (
            "m.room.member",
            {"membership": "invite", "third_party_invite": {"signed": {"token": "t"}}},
            BOB,
            [OF_BOB, JOIN_RULES, OF_TOKEN],
            ALL,
        ),
        (
            "m.room.member",
            {"membership": "leave", "third_party_invite": {"signed": {"token": "t"}}},
            BOB,
            [OF_BOB],
            ALL,
        ),
        (
            "m.room.member",
            {"membership": "join", "join_authorised_via_users_server": CAROL},
            ALICE,
            [JOIN_RULES, OF_CAROL],
            RESTRICTED,
        ),
        (
            "m.room.member",
            {"membership": "join", "join_authorised_via_users_server": CAROL},
            ALICE,
            [JOIN_RULES],
            ["3", "4", "5", "6", "7"],
        ),
        ("m.room.member", {"membership": "join", "join_authorised_via_users_server": ALICE}, ALICE, [JOIN_RULES], ALL),
        (
            "m.room.member",
            {"membership": "invite", "join_authorised_via_users_server": CAROL},
            BOB,
            [OF_BOB, JOIN_RULES],
            ALL,
        ),
    ],
)
def test_selected_auth_events(
    type_: str, content: dict[str, Any], state_key: str | None, more: list[StateKey], versions: list[str]
) -> None:
    """The create event, the power levels, the sender's membership, and for membership events further events.
    From version 12 on the create event is required but not selected."""
    event = template(type_, content, state_key)
    for version in versions:
        of = ROOM_VERSIONS[version]
        assert required_state(event, of) == [*ALWAYS, *more]
        assert auth_event_keys(event, of) == [*(ALWAYS[1:] if of.create_event_is_room_id else ALWAYS), *more]


def test_the_create_event_has_no_auth_events() -> None:
    """ "The `auth_events` for the `m.room.create` event in a room is empty"."""
    for version in ROOM_VERSIONS.values():
        assert auth_event_keys(template("m.room.create", {}, ""), version) == []
        assert required_state(template("m.room.create", {}, ""), version) == []


@pytest.mark.parametrize(
    "odd", [None, 3, "x", [], {}, {"signed": 3}, {"signed": {"token": 3}}, {"signed": {"token": []}}]
)
def test_malformed_contents_select_nothing_more(odd: Any) -> None:
    """And raise nothing."""
    of = ROOM_VERSIONS["12"]
    invite = template("m.room.member", {"membership": "invite", "third_party_invite": odd}, BOB)
    assert required_state(invite, of) == [*ALWAYS, OF_BOB, JOIN_RULES]
    if not isinstance(odd, str):
        join = template("m.room.member", {"membership": "join", "join_authorised_via_users_server": odd}, ALICE)
        assert required_state(join, of) == [*ALWAYS, JOIN_RULES]
    assert required_state(template("m.room.member", {"membership": [odd]}, BOB), of) == [*ALWAYS, OF_BOB]
