"""The response of `send_join`, as built and as parsed."""

from typing import Any

import pytest

from federation.events import Pdu
from federation.events.event_signatures import add_signature
from federation.memberships.membership_event import AUTHORISER
from federation.memberships.send_join_response import (
    MAX_HEROES,
    MAX_MEMBERS_IN_FULL,
    InvalidResponse,
    JoinResult,
    build_response,
    heroes,
    may_omit_members,
    parse_response,
    without_members,
)
from tests.federation.standing import OTHER_ROOM, VERSIONS, chain_of, restricted_room
from tests.support.rooms import ALICE, BOB, CAROL, DAVE, Room, public_room, signer

every_version = pytest.mark.parametrize("version", VERSIONS)


def joining(room: Room, user: str = BOB, **content: Any) -> Pdu:
    return room.propose("m.room.member", user, {"membership": "join", **content}, user)


def answered(room: Room, join: Pdu, *, omit_members: bool = False) -> dict[str, Any]:
    state = room.state()
    shown = without_members(state, join.sender) if omit_members else list(state.values())
    return build_response(
        join, shown, chain_of(room, join, *shown), omit_members=omit_members, servers={"c.example", "a.example"}
    )


def as_read(room: Room, join: Pdu, change: dict[str, Any] | None = None) -> JoinResult | InvalidResponse:
    return parse_response({**answered(room, join), **(change or {})}, join, room.version, "a.example")


@every_version
def test_a_built_response_is_parsed(version: str) -> None:
    """The state before the join, the auth chain of both, and the join itself."""
    room = public_room(version, CAROL)
    join = joining(room)
    sent = as_read(room, join)
    assert isinstance(sent, JoinResult)
    assert sent.event == join
    assert sent.create == room.create
    assert sent.state == room.state()
    assert set(sent.auth_chain) >= {pdu.event_id for pdu in chain_of(room, join)}
    assert "members_omitted" in answered(room, join)


@every_version
def test_a_response_without_members_names_the_servers(version: str) -> None:
    """Events of `state` need not be in `auth_chain` again, and `servers_in_room` replaces the members."""
    room = public_room(version, CAROL, DAVE)
    room.send("m.room.name", ALICE, {"name": "Kitchen"}, "")
    content = answered(room, joining(room), omit_members=True)
    assert content["members_omitted"] is True
    assert content["servers_in_room"] == ["a.example", "c.example"]
    types = [event["type"] for event in content["state"]]
    assert "m.room.member" not in types
    assert "m.room.create" in types
    assert [event["type"] for event in content["auth_chain"]] == [
        "m.room.member"
    ]  # of Alice, an auth event of the others


def test_few_members_are_not_omitted() -> None:
    """Omitting them would save nothing."""
    members = [("m.room.member", f"@u{number}:a.example") for number in range(MAX_MEMBERS_IN_FULL)]
    assert not may_omit_members([("m.room.create", ""), *members])
    assert may_omit_members([("m.room.member", "@another:a.example"), *members])


def test_a_room_without_a_name_keeps_its_heroes() -> None:
    """The first five users who are joined or invited, without the joining one."""
    users = [f"@user{number}:c.example" for number in range(MAX_HEROES + 2)]
    room = public_room("11", *users)
    room.member(ALICE, BOB, "invite")
    kept = without_members(room.state(), BOB)
    members = [pdu.state_key for pdu in kept if pdu.type == "m.room.member"]
    assert members == [ALICE, *users[: MAX_HEROES - 1]]
    room.send("m.room.canonical_alias", ALICE, {"alias": "#kitchen:a.example"}, "")
    assert all(pdu.type != "m.room.member" for pdu in without_members(room.state(), BOB))


def test_former_members_are_heroes_of_an_empty_room() -> None:
    """ "If there are no joined or invited members", those who left or were banned."""
    room = public_room("11", CAROL)
    room.member(ALICE, CAROL, "ban")
    state = {key: pdu for key, pdu in room.state().items() if key != ("m.room.member", ALICE)}
    assert [pdu.state_key for pdu in heroes(state, BOB)] == [CAROL]


@every_version
def test_a_response_without_create_event(version: str) -> None:
    """It is refused, as by Synapse: no event could be authorised in such a room."""
    room = public_room(version)
    join = joining(room)
    state = [pdu.event for key, pdu in room.state().items() if key[0] != "m.room.create"]
    wrong = as_read(room, join, {"state": state})
    assert isinstance(wrong, InvalidResponse)
    assert "create" in wrong.problem


def test_a_create_event_of_another_version_than_the_template() -> None:
    """Its events would have other ids and other rules."""
    room = public_room("11")
    other = Room("10")
    create = {**other.create.event, "room_id": room.room_id}
    state = [create, *(pdu.event for key, pdu in room.state().items() if key[0] != "m.room.create")]
    wrong = as_read(room, joining(room), {"state": state})
    assert isinstance(wrong, InvalidResponse)
    assert "version" in wrong.problem


def test_a_second_create_event_in_the_auth_chain() -> None:
    """The state would depend on another room than the one being joined."""
    room = public_room("11")
    join = joining(room)
    other = Room("11", creator="@other:a.example")
    chain = [*answered(room, join)["auth_chain"], other.create.event]
    wrong = as_read(room, join, {"auth_chain": chain})
    assert isinstance(wrong, InvalidResponse)
    assert "another create event" in wrong.problem


@every_version
def test_an_incomplete_auth_chain(version: str) -> None:
    """Every auth event must be in the response, or the events could not be checked."""
    room = public_room(version, CAROL)
    room.power_levels(ALICE, {"users": dict(room.state()["m.room.power_levels", ""].content["users"])})
    join = joining(room)
    old_levels = next(
        pdu for pdu in room.events.values() if pdu.type == "m.room.power_levels" and pdu not in room.state().values()
    )
    chain = [pdu.event for pdu in chain_of(room, join, *room.state().values()) if pdu != old_levels]
    wrong = as_read(room, join, {"auth_chain": chain})
    assert isinstance(wrong, InvalidResponse)
    assert old_levels.event_id in wrong.problem


@pytest.mark.parametrize(
    "change",
    [
        {"state": None},
        {"auth_chain": {}},
        {"state": [None]},
        {"state": [{"type": "m.room.create"}]},
        {"members_omitted": True},
    ],
)
def test_a_malformed_response(change: dict[str, Any]) -> None:
    """`state` and `auth_chain` must be lists of events, with all members."""
    room = public_room("11")
    assert isinstance(as_read(room, joining(room), change), InvalidResponse)


def test_events_that_are_not_part_of_the_state() -> None:
    """Events of another room, messages, and two events with the same state key."""
    room, other = public_room("11"), public_room("12")
    join = joining(room)
    message = room.say(ALICE)
    old = next(iter(room.events.values()))
    for extra in (other.state()["m.room.join_rules", ""], message):
        wrong = as_read(room, join, {"state": [*(p.event for p in room.state().values()), extra.event]})
        assert isinstance(wrong, InvalidResponse)
    assert isinstance(as_read(room, join, {"state": [*answered(room, join)["state"], old.event]}), JoinResult)
    again = room.propose("m.room.join_rules", ALICE, {"join_rule": "public"}, "")
    twice = as_read(room, join, {"state": [*answered(room, join)["state"], again.event]})
    assert isinstance(twice, InvalidResponse)
    assert "same type and state key" in twice.problem


@every_version
def test_a_restricted_join_is_returned_signed(version: str) -> None:
    """`event` is required then, with the signature of the server that authorises the join."""
    room = restricted_room(version, OTHER_ROOM)
    join = joining(room, **{AUTHORISER: ALICE})
    wrong = as_read(room, join)
    assert isinstance(wrong, InvalidResponse)
    assert "signature" in wrong.problem
    alices = signer("a.example")
    signed = add_signature(join.event, room.version, "a.example", alices.key_id, alices.key)
    sent = as_read(room, join, {"event": signed})
    assert isinstance(sent, JoinResult)
    assert set(sent.event.signatures) == {"a.example", "b.example"}
    assert isinstance(as_read(room, join, {"event": None}), InvalidResponse)
    assert isinstance(
        parse_response({**answered(room, join), "event": signed}, join, room.version, "c.example"), InvalidResponse
    )


def test_a_returned_event_is_ignored_for_other_joins() -> None:
    """The join stays the local event, whatever the response's `event` is."""
    room = public_room("11")
    join = joining(room)
    sent = as_read(room, join, {"event": {"type": "m.room.member"}})
    assert isinstance(sent, JoinResult)
    assert sent.event.event == join.event
