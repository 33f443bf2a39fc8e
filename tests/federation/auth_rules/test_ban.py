"""Rule 5.6: bans."""

import pytest

from federation.auth_rules import Allowed, Verdict
from federation.matrix.room_version import ROOM_VERSIONS
from tests.federation.auth_rules.refusals import RefusalCase, assert_refused, cases_of, refused_by
from tests.support.rooms import ALICE, BOB, CAROL, DAVE, Room, public_room


def ban(room: Room, sender: str, target: str) -> Verdict:
    return room.verdict(room.propose("m.room.member", sender, {"membership": "ban"}, target))


@refused_by("ban.sender")
def by_a_user_who_is_not_joined(version: str) -> Verdict:
    return ban(public_room(version), BOB, CAROL)


@refused_by("ban.otherwise")
def without_power(version: str) -> Verdict:
    return ban(public_room(version, CAROL), CAROL, DAVE)


@refused_by("ban.otherwise")
def the_creator(version: str) -> Verdict:
    return ban(public_room(version, BOB), BOB, ALICE)


@refused_by("ban.otherwise")
def banning_oneself(version: str) -> Verdict:
    """No user has more power than themselves."""
    return ban(public_room(version, BOB), BOB, BOB)


@refused_by("ban.otherwise", ["12"])
def creators_cannot_ban_each_other(version: str) -> Verdict:
    return ban(public_room(version, CAROL, additional_creators=[CAROL]), CAROL, ALICE)


@pytest.mark.parametrize(("version", "refusal"), cases_of(__name__))
def test_refusals(version: str, refusal: RefusalCase) -> None:
    """Each is refused by the given rule, with its number in the version."""
    assert_refused(version, refusal)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_who_may_be_banned(version: str) -> None:
    """Any user with less power, with any membership."""
    room = public_room(version, BOB, CAROL)
    for target in (CAROL, DAVE):
        assert isinstance(ban(room, BOB, target), Allowed)
    room.member(BOB, CAROL, "ban")
    assert isinstance(ban(room, ALICE, CAROL), Allowed)
