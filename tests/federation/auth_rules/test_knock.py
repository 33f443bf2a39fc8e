"""Rule 5.7: knocks."""

import pytest

from federation.auth_rules import Allowed, Verdict
from tests.federation.auth_rules.refusals import RefusalCase, assert_refused, cases_of, refused_by
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room

KNOCKING = ["7", "8", "9", "10", "11", "12"]


def knocking_room(version: str, *members: str, rule: str = "knock") -> Room:
    room = public_room(version, *members)
    room.join_rule(ALICE, rule)
    return room


def knock(room: Room, sender: str, target: str) -> Verdict:
    return room.verdict(room.propose("m.room.member", sender, {"membership": "knock"}, target))


@refused_by("knock.join_rule")
def a_public_room(version: str) -> Verdict:
    return knock(public_room(version), BOB, BOB)


@refused_by("knock.join_rule", ["8", "9"])
def a_restricted_room(version: str) -> Verdict:
    return knock(knocking_room(version, rule="restricted"), BOB, BOB)


@refused_by("knock.join_rule", ["7", "8", "9"])
def knock_restricted_before_it_was_one(version: str) -> Verdict:
    return knock(knocking_room(version, rule="knock_restricted"), BOB, BOB)


@refused_by("knock.sender")
def for_another_user(version: str) -> Verdict:
    return knock(knocking_room(version), BOB, CAROL)


@refused_by("knock.otherwise")
def by_a_joined_user(version: str) -> Verdict:
    return knock(knocking_room(version, BOB), BOB, BOB)


@refused_by("knock.otherwise")
def by_an_invited_user(version: str) -> Verdict:
    room = knocking_room(version)
    room.member(ALICE, BOB, "invite")
    return knock(room, BOB, BOB)


@refused_by("knock.otherwise")
def by_a_banned_user(version: str) -> Verdict:
    room = knocking_room(version)
    room.member(ALICE, BOB, "ban")
    return knock(room, BOB, BOB)


@pytest.mark.parametrize(("version", "refusal"), cases_of(__name__))
def test_refusals(version: str, refusal: RefusalCase) -> None:
    """Each is refused by the given rule, with its number in the version."""
    assert_refused(version, refusal)


@pytest.mark.parametrize("version", KNOCKING)
def test_who_may_knock(version: str) -> None:
    """Users who are not in the room, also repeatedly; then they may be invited."""
    room = knocking_room(version, CAROL)
    room.member(CAROL, CAROL, "leave")
    for user in (BOB, CAROL, BOB):
        room.member(user, user, "knock")
    room.member(ALICE, BOB, "invite")
    room.join(BOB)


@pytest.mark.parametrize("version", ["10", "11", "12"])
def test_knock_restricted(version: str) -> None:
    """From version 10 on."""
    assert isinstance(knock(knocking_room(version, rule="knock_restricted"), BOB, BOB), Allowed)
