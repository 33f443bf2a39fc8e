"""The answer of `send_join`, from both sides."""

from typing import Any

import pytest

from federation.events import Pdu
from federation.events.event_signatures import add_signature
from federation.memberships.membership_event import AUTHORISER
from federation.memberships.send_join_answer import (
    MOST_HEROES,
    MOST_MEMBERS_IN_FULL,
    SentJoin,
    WrongAnswer,
    answer,
    heroes,
    may_be_short,
    read,
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
    return answer(
        join,
        shown,
        chain_of(room, join, *shown),
        omit_members=omit_members,
        servers={"c.example", "a.example"},
    )


def as_read(room: Room, join: Pdu, change: dict[str, Any] | None = None) -> SentJoin | WrongAnswer:
    return read({**answered(room, join), **(change or {})}, join, room.version, "a.example")


@every_version
def test_what_a_resident_server_says_is_found_whole(version: str) -> None:
    """The state before the join, everything that it and the join rest on, and the join itself."""
    room = public_room(version, CAROL)
    join = joining(room)
    sent = as_read(room, join)
    assert isinstance(sent, SentJoin)
    assert sent.event == join
    assert sent.create == room.create
    assert sent.state == room.state()
    assert set(sent.auth_chain) >= {pdu.event_id for pdu in chain_of(room, join)}
    assert "members_omitted" in answered(room, join)


@every_version
def test_an_answer_without_members_says_who_is_in_the_room(version: str) -> None:
    """What is in `state` need not be in `auth_chain` again, and the servers take the members' place."""
    room = public_room(version, CAROL, DAVE)
    room.send("m.room.name", ALICE, {"name": "Kitchen"}, "")
    content = answered(room, joining(room), omit_members=True)
    assert content["members_omitted"] is True
    assert content["servers_in_room"] == ["a.example", "c.example"]
    types = [event["type"] for event in content["state"]]
    assert "m.room.member" not in types
    assert "m.room.create" in types
    assert [event["type"] for event in content["auth_chain"]] == ["m.room.member"]  # Alice's, for the rest


def test_of_few_members_none_is_left_out() -> None:
    """There is nothing to be saved by it."""
    members = [("m.room.member", f"@u{number}:a.example") for number in range(MOST_MEMBERS_IN_FULL)]
    assert not may_be_short([("m.room.create", ""), *members])
    assert may_be_short([("m.room.member", "@another:a.example"), *members])


def test_a_room_without_a_name_keeps_its_heroes() -> None:
    """The first five who are joined or invited; Who joins is not one of them."""
    users = [f"@user{number}:c.example" for number in range(MOST_HEROES + 2)]
    room = public_room("11", *users)
    room.member(ALICE, BOB, "invite")
    kept = without_members(room.state(), BOB)
    members = [pdu.state_key for pdu in kept if pdu.type == "m.room.member"]
    assert members == [ALICE, *users[: MOST_HEROES - 1]]
    room.send("m.room.canonical_alias", ALICE, {"alias": "#kitchen:a.example"}, "")
    assert all(pdu.type != "m.room.member" for pdu in without_members(room.state(), BOB))


def test_a_room_that_everybody_left_has_those_as_heroes() -> None:
    """ "If there are no joined or invited members", those who left or were banned."""
    room = public_room("11", CAROL)
    room.member(ALICE, CAROL, "ban")
    state = {key: pdu for key, pdu in room.state().items() if key != ("m.room.member", ALICE)}
    assert [pdu.state_key for pdu in heroes(state, BOB)] == [CAROL]


@every_version
def test_an_answer_without_create_event(version: str) -> None:
    """It is refused, as by Synapse: nobody could authorise anything in such a room."""
    room = public_room(version)
    join = joining(room)
    state = [pdu.event for key, pdu in room.state().items() if key[0] != "m.room.create"]
    wrong = as_read(room, join, {"state": state})
    assert isinstance(wrong, WrongAnswer)
    assert "create" in wrong.problem


def test_a_room_of_another_version_than_the_template_said() -> None:
    """Its events would have other ids, and other rules."""
    room = public_room("11")
    other = Room("10")
    create = {**other.create.event, "room_id": room.room_id}
    state = [create, *(pdu.event for key, pdu in room.state().items() if key[0] != "m.room.create")]
    wrong = as_read(room, joining(room), {"state": state})
    assert isinstance(wrong, WrongAnswer)
    assert "version" in wrong.problem


def test_a_second_create_event_in_the_chain() -> None:
    """The state would rest on another room than the one that is joined."""
    room = public_room("11")
    join = joining(room)
    other = Room("11", creator="@other:a.example")
    chain = [*answered(room, join)["auth_chain"], other.create.event]
    wrong = as_read(room, join, {"auth_chain": chain})
    assert isinstance(wrong, WrongAnswer)
    assert "another create event" in wrong.problem


@every_version
def test_a_chain_with_a_hole(version: str) -> None:
    """What an event rests on has to be there, or nobody can check it."""
    room = public_room(version, CAROL)
    room.power_levels(ALICE, {"users": dict(room.state()["m.room.power_levels", ""].content["users"])})
    join = joining(room)
    old_levels = next(
        pdu
        for pdu in room.events.values()
        if pdu.type == "m.room.power_levels" and pdu not in room.state().values()
    )
    chain = [pdu.event for pdu in chain_of(room, join, *room.state().values()) if pdu != old_levels]
    wrong = as_read(room, join, {"auth_chain": chain})
    assert isinstance(wrong, WrongAnswer)
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
def test_an_answer_of_no_form(change: dict[str, Any]) -> None:
    """Lists of events, and of all members: that is what was asked for."""
    room = public_room("11")
    assert isinstance(as_read(room, joining(room), change), WrongAnswer)


def test_events_that_do_not_belong_there() -> None:
    """Of another room, messages, and two of the same place in the state."""
    room, other = public_room("11"), public_room("12")
    join = joining(room)
    message = room.say(ALICE)
    old = next(iter(room.events.values()))
    for extra in (other.state()["m.room.join_rules", ""], message):
        wrong = as_read(room, join, {"state": [*(p.event for p in room.state().values()), extra.event]})
        assert isinstance(wrong, WrongAnswer)
    assert isinstance(as_read(room, join, {"state": [*answered(room, join)["state"], old.event]}), SentJoin)
    again = room.propose("m.room.join_rules", ALICE, {"join_rule": "public"}, "")
    twice = as_read(room, join, {"state": [*answered(room, join)["state"], again.event]})
    assert isinstance(twice, WrongAnswer)
    assert "same type and state key" in twice.problem


@every_version
def test_a_restricted_join_comes_back_signed(version: str) -> None:
    """`event` is required then, with the signature of the server that vouches for it."""
    room = restricted_room(version, OTHER_ROOM)
    join = joining(room, **{AUTHORISER: ALICE})
    wrong = as_read(room, join)
    assert isinstance(wrong, WrongAnswer)
    assert "signature" in wrong.problem
    alices = signer("a.example")
    signed = add_signature(join.event, room.version, "a.example", alices.key_id, alices.key)
    sent = as_read(room, join, {"event": signed})
    assert isinstance(sent, SentJoin)
    assert set(sent.event.signatures) == {"a.example", "b.example"}
    assert isinstance(as_read(room, join, {"event": None}), WrongAnswer)
    assert isinstance(
        read({**answered(room, join), "event": signed}, join, room.version, "c.example"), WrongAnswer
    )


def test_what_comes_back_of_another_join_is_not_looked_at() -> None:
    """Our event is the one that we signed, whatever the answer's `event` says."""
    room = public_room("11")
    join = joining(room)
    sent = as_read(room, join, {"event": {"type": "m.room.member"}})
    assert isinstance(sent, SentJoin)
    assert sent.event.event == join.event
