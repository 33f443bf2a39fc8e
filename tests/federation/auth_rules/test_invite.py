"""Rule 5.4: inviting."""

import pytest

from federation.auth_rules import Allowed, Verdict
from federation.matrix.room_version import ROOM_VERSIONS
from tests.federation.auth_rules.refusals import Refusal, assert_refused, cases_of, refused_by
from tests.support.rooms import ALICE, BOB, CAROL, DAVE, public_room

INVITE = {"membership": "invite"}


@refused_by("invite.sender")
def by_somebody_who_is_not_there(version: str) -> Verdict:
    room = public_room(version)
    return room.verdict(room.propose("m.room.member", BOB, INVITE, CAROL))


@refused_by("invite.target")
def of_somebody_who_is_there(version: str) -> Verdict:
    room = public_room(version, BOB)
    return room.verdict(room.propose("m.room.member", ALICE, INVITE, BOB))


@refused_by("invite.target")
def of_somebody_who_is_banned(version: str) -> Verdict:
    room = public_room(version)
    room.member(ALICE, BOB, "ban")
    return room.verdict(room.propose("m.room.member", ALICE, INVITE, BOB))


@refused_by("invite.otherwise")
def without_the_power(version: str) -> Verdict:
    room = public_room(version, CAROL, levels={"invite": 1})
    return room.verdict(room.propose("m.room.member", CAROL, INVITE, DAVE))


@pytest.mark.parametrize(("version", "refusal"), cases_of(__name__))
def test_refusals(version: str, refusal: Refusal) -> None:
    """Each is refused by the rule that it stands for, under the version's number."""
    assert_refused(version, refusal)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_who_may_invite(version: str) -> None:
    """The invite level is 0 unless it is given; somebody who left, knocks or is invited already may be
    invited."""
    room = public_room(version, CAROL, DAVE)
    room.member(DAVE, DAVE, "leave")
    room.member(CAROL, DAVE, "invite")
    room.member(ALICE, DAVE, "invite")
    room = public_room(version, BOB, CAROL, levels={"invite": 50})
    assert isinstance(room.verdict(room.propose("m.room.member", BOB, INVITE, DAVE)), Allowed)
