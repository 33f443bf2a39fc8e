"""Rule 5.3: joins."""

import pytest

from federation.auth_rules import Allowed, Refused, Verdict
from federation.matrix.room_version import ROOM_VERSIONS
from tests.federation.auth_rules.refusals import RefusalCase, assert_refused, cases_of, refused_by
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room

JOIN = {"membership": "join"}


@refused_by("join.sender")
def joining_for_another_user(version: str) -> Verdict:
    room = public_room(version, BOB)
    return room.verdict(room.propose("m.room.member", BOB, JOIN, CAROL))


@refused_by("join.banned")
def a_banned_user(version: str) -> Verdict:
    room = public_room(version)
    room.member(ALICE, BOB, "ban")
    return room.verdict(room.propose("m.room.member", BOB, JOIN, BOB))


@refused_by("join.otherwise")
def a_room_by_invitation(version: str) -> Verdict:
    room = public_room(version)
    room.join_rule(ALICE, "invite")
    return room.verdict(room.propose("m.room.member", BOB, JOIN, BOB))


@refused_by("join.otherwise")
def after_having_left(version: str) -> Verdict:
    room = public_room(version, BOB)
    room.member(BOB, BOB, "leave")
    room.join_rule(ALICE, "invite")
    return room.verdict(room.propose("m.room.member", BOB, JOIN, BOB))


@refused_by("join.otherwise")
def an_unknown_join_rule(version: str) -> Verdict:
    """Not even a joined user may change their profile then."""
    room = public_room(version, BOB)
    room.join_rule(ALICE, "private")
    return room.verdict(room.propose("m.room.member", BOB, {**JOIN, "displayname": "Bob"}, BOB))


@refused_by("join.otherwise")
def a_join_rule_of_null(version: str) -> Verdict:
    """As in Synapse: a missing `join_rule` is `invite`, and no user can satisfy `null`."""
    room = public_room(version, BOB)
    room.send("m.room.join_rules", ALICE, {"join_rule": None}, "")
    return room.verdict(room.propose("m.room.member", BOB, JOIN, BOB))


@refused_by("join.otherwise")
def a_room_without_join_rules(version: str) -> Verdict:
    room = Room(version)
    room.join(ALICE)
    return room.verdict(room.propose("m.room.member", BOB, JOIN, BOB))


@refused_by("join.otherwise", ["3", "4", "5", "6"])
def knock_before_there_was_knocking(version: str) -> Verdict:
    room = public_room(version, BOB)
    room.join_rule(ALICE, "knock")
    return room.verdict(room.propose("m.room.member", BOB, JOIN, BOB))


@refused_by("join.otherwise", ["3", "4", "5", "6", "7"])
def restricted_before_there_were_restricted_rooms(version: str) -> Verdict:
    room = public_room(version, BOB)
    room.join_rule(ALICE, "restricted")
    return room.verdict(room.propose("m.room.member", BOB, JOIN, BOB))


@refused_by("join.otherwise", ["3", "4", "5", "6", "7", "8", "9"])
def knock_restricted_before_it_was_one(version: str) -> Verdict:
    room = public_room(version, BOB)
    room.join_rule(ALICE, "knock_restricted")
    return room.verdict(room.propose("m.room.member", BOB, JOIN, BOB))


@refused_by("join.otherwise")
def the_first_join_of_another_user(version: str) -> Verdict:
    room = Room(version)
    return room.verdict(room.propose("m.room.member", BOB, JOIN, BOB))


@refused_by("join.otherwise", ["12"])
def the_first_join_of_an_additional_creator(version: str) -> Verdict:
    """Rule 5.3.1 applies only to the sender of the create event."""
    room = Room(version, additional_creators=[BOB])
    return room.verdict(room.propose("m.room.member", BOB, JOIN, BOB))


@refused_by("join.otherwise")
def the_creator_joins_again(version: str) -> Verdict:
    """Rule 5.3.1 applies only to an event that follows nothing but the create event."""
    room = Room(version)
    room.join(ALICE)
    room.member(ALICE, ALICE, "leave")
    return room.verdict(room.propose("m.room.member", ALICE, JOIN, ALICE))


@pytest.mark.parametrize(("version", "refusal"), cases_of(__name__))
def test_refusals(version: str, refusal: RefusalCase) -> None:
    """Each is refused by the given rule, with its number in the version."""
    assert_refused(version, refusal)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
@pytest.mark.parametrize("rule", ["invite", "knock", "restricted", "knock_restricted", "public"])
def test_invited_and_joined_users_may_join(version: str, rule: str) -> None:
    """Under every join rule of the version."""
    known = {
        "knock": ROOM_VERSIONS[version].knocking,
        "restricted": ROOM_VERSIONS[version].restricted_joins,
        "knock_restricted": ROOM_VERSIONS[version].knock_restricted_joins,
    }.get(rule, True)
    room = public_room(version, CAROL)
    room.member(ALICE, BOB, "invite")
    room.join_rule(ALICE, rule)
    for user in (BOB, CAROL):
        verdict = room.verdict(room.propose("m.room.member", user, JOIN, user))
        assert isinstance(verdict, Allowed if known else Refused)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_a_missing_join_rule_means_invite(version: str) -> None:
    """As in Synapse."""
    room = public_room(version)
    room.send("m.room.join_rules", ALICE, {}, "")
    room.member(ALICE, BOB, "invite")
    room.join(BOB)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_the_first_join(version: str) -> None:
    """5.3.1: the only previous event is the create event and the state key is the creator. The sender is not
    checked; until version 10 the creator is `content.creator`."""
    room = Room(version)
    room.join(ALICE)
    room = Room(version)
    by_another = room.verdict(room.propose("m.room.member", BOB, JOIN, ALICE))
    assert isinstance(by_another, Allowed)
    if room.version.creator_in_content:
        room = Room(version)
        room = Room(version, creator=BOB)
        assert room.create.content["creator"] == BOB
        room.join(BOB)
