"""Rule 5.4: invites."""

import pytest

from federation.auth_rules import Allowed, Verdict
from federation.matrix.room_version import ROOM_VERSIONS
from tests.federation.auth_rules.refusals import RefusalCase, assert_refused, cases_of, refused_by
from tests.support.rooms import ALICE, BOB, CAROL, DAVE, public_room

INVITE = {"membership": "invite"}


@refused_by("invite.sender")
def by_a_user_who_is_not_joined(version: str) -> Verdict:
    room = public_room(version)
    return room.verdict(room.propose("m.room.member", BOB, INVITE, CAROL))


@refused_by("invite.target")
def of_a_joined_user(version: str) -> Verdict:
    room = public_room(version, BOB)
    return room.verdict(room.propose("m.room.member", ALICE, INVITE, BOB))


@refused_by("invite.target")
def of_a_banned_user(version: str) -> Verdict:
    room = public_room(version)
    room.member(ALICE, BOB, "ban")
    return room.verdict(room.propose("m.room.member", ALICE, INVITE, BOB))


@refused_by("invite.otherwise")
def without_power(version: str) -> Verdict:
    room = public_room(version, CAROL, levels={"invite": 1})
    return room.verdict(room.propose("m.room.member", CAROL, INVITE, DAVE))


@pytest.mark.parametrize(("version", "refusal"), cases_of(__name__))
def test_refusals(version: str, refusal: RefusalCase) -> None:
    """Each is refused by the given rule, with its number in the version."""
    assert_refused(version, refusal)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_who_may_invite(version: str) -> None:
    """The default invite level is 0. Users who have left, have knocked or are already invited may be
    invited."""
    room = public_room(version, CAROL, DAVE)
    room.member(DAVE, DAVE, "leave")
    room.member(CAROL, DAVE, "invite")
    room.member(ALICE, DAVE, "invite")
    room = public_room(version, BOB, CAROL, levels={"invite": 50})
    assert isinstance(room.verdict(room.propose("m.room.member", BOB, INVITE, DAVE)), Allowed)
