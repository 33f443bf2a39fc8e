"""Rule 5.5: leaves, kicks and unbans."""

import pytest

from federation.auth_rules import Allowed, Refused, Verdict
from federation.matrix.room_version import ROOM_VERSIONS
from tests.federation.auth_rules.refusals import RefusalCase, assert_refused, cases_of, refused_by
from tests.support.rooms import ALICE, BOB, CAROL, DAVE, Room, levels_of, public_room

LEAVE = {"membership": "leave"}


def leave(room: Room, sender: str, target: str) -> Verdict:
    return room.verdict(room.propose("m.room.member", sender, LEAVE, target))


@refused_by("leave.self")
def without_membership(version: str) -> Verdict:
    return leave(public_room(version), BOB, BOB)


@refused_by("leave.self")
def while_banned(version: str) -> Verdict:
    room = public_room(version)
    room.member(ALICE, BOB, "ban")
    return leave(room, BOB, BOB)


@refused_by("leave.self")
def twice(version: str) -> Verdict:
    room = public_room(version, BOB)
    room.member(BOB, BOB, "leave")
    return leave(room, BOB, BOB)


@refused_by("leave.sender")
def kicking_without_being_joined(version: str) -> Verdict:
    return leave(public_room(version, CAROL), BOB, CAROL)


@refused_by("leave.unban")
def unbanning_without_the_power_to_ban(version: str) -> Verdict:
    room = public_room(version, BOB, levels={"ban": 60})
    room.member(ALICE, CAROL, "ban")
    return leave(room, BOB, CAROL)


@refused_by("leave.otherwise")
def kicking_without_power(version: str) -> Verdict:
    return leave(public_room(version, CAROL, DAVE), CAROL, DAVE)


@refused_by("leave.otherwise")
def kicking_an_equal(version: str) -> Verdict:
    room = public_room(version, BOB, CAROL)
    levels = levels_of(room)
    room.power_levels(ALICE, {**levels, "users": {**levels["users"], CAROL: 50}})
    return leave(room, BOB, CAROL)


@refused_by("leave.otherwise")
def kicking_the_creator(version: str) -> Verdict:
    return leave(public_room(version, BOB), BOB, ALICE)


@refused_by("leave.otherwise", ["12"])
def creators_cannot_kick_each_other(version: str) -> Verdict:
    return leave(public_room(version, CAROL, additional_creators=[CAROL]), ALICE, CAROL)


@refused_by("leave.otherwise")
def unbanning_with_the_power_to_ban_but_not_to_kick(version: str) -> Verdict:
    """Unbanning needs both levels."""
    room = public_room(version, BOB, levels={"kick": 60})
    room.member(ALICE, CAROL, "ban")
    return leave(room, BOB, CAROL)


@pytest.mark.parametrize(("version", "refusal"), cases_of(__name__))
def test_refusals(version: str, refusal: RefusalCase) -> None:
    """Each is refused by the given rule, with its number in the version."""
    assert_refused(version, refusal)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_who_may_leave(version: str) -> None:
    """Invited and joined users, and from version 7 on users who have knocked."""
    room = public_room(version, BOB)
    assert isinstance(leave(room, BOB, BOB), Allowed)
    room.member(ALICE, CAROL, "invite")
    assert isinstance(leave(room, CAROL, CAROL), Allowed)
    knocking = public_room(version)
    knocking.join_rule(ALICE, "knock")
    knock = knocking.propose("m.room.member", DAVE, {"membership": "knock"}, DAVE)
    if knocking.version.knocking:
        knocking.add(knock)
        assert isinstance(leave(knocking, DAVE, DAVE), Allowed)
    else:
        # There is no knocking in these versions; a state with such a membership does not matter.
        state = {**knocking.state(), ("m.room.member", DAVE): knock}
        gone = knocking.propose("m.room.member", DAVE, LEAVE, DAVE)
        assert isinstance(knocking.verdict(gone, state), Refused)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_who_may_be_kicked(version: str) -> None:
    """Any user with less power, with any membership; unbanning needs the power to ban and to kick."""
    room = public_room(version, BOB, CAROL)
    assert isinstance(leave(room, BOB, CAROL), Allowed)
    assert isinstance(leave(room, BOB, DAVE), Allowed)
    room.member(BOB, CAROL, "ban")
    assert isinstance(leave(room, BOB, CAROL), Allowed)
    assert isinstance(leave(room, ALICE, BOB), Allowed)
