"""Rule 5: `m.room.member`."""

import pytest

from federation.auth_rules import Verdict
from federation.matrix.room_version import ROOM_VERSIONS
from tests.federation.auth_rules.refusals import RefusalCase, assert_refused, cases_of, refused_by
from tests.support.rooms import ALICE, BOB, public_room


@refused_by("member.properties")
def no_state_key(version: str) -> Verdict:
    room = public_room(version)
    return room.verdict(room.propose("m.room.member", BOB, {"membership": "join"}))


@refused_by("member.properties")
def no_membership(version: str) -> Verdict:
    room = public_room(version)
    return room.verdict(room.propose("m.room.member", BOB, {"displayname": "Bob"}, BOB))


@refused_by("member.properties")
def a_state_key_that_is_not_a_user_id(version: str) -> Verdict:
    room = public_room(version)
    return room.verdict(room.propose("m.room.member", ALICE, {"membership": "invite"}, "bob"))


@refused_by("member.unknown")
def an_unknown_membership(version: str) -> Verdict:
    room = public_room(version)
    return room.verdict(room.propose("m.room.member", BOB, {"membership": "lurk"}, BOB))


@refused_by("member.unknown")
def a_membership_that_is_not_a_string(version: str) -> Verdict:
    room = public_room(version)
    return room.verdict(room.propose("m.room.member", BOB, {"membership": ["join"]}, BOB))


@refused_by("member.unknown", ["3", "4", "5", "6"])
def knocking_before_there_was_knocking(version: str) -> Verdict:
    room = public_room(version)
    room.join_rule(ALICE, "knock")
    return room.verdict(room.propose("m.room.member", BOB, {"membership": "knock"}, BOB))


@pytest.mark.parametrize(("version", "refusal"), cases_of(__name__))
def test_refusals(version: str, refusal: RefusalCase) -> None:
    """Each is refused by the given rule, with its number in the version."""
    assert_refused(version, refusal)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_a_sequence_of_memberships(version: str) -> None:
    """Invited, joined, renamed, kicked, joined again, banned, unbanned, left: every step is allowed."""
    room = public_room(version)
    room.member(ALICE, BOB, "invite")
    room.join(BOB)
    room.join(BOB, content={"displayname": "Bob"})
    room.member(ALICE, BOB, "leave")
    room.join(BOB)
    room.member(ALICE, BOB, "ban")
    room.member(ALICE, BOB, "leave")
    room.join(BOB)
    room.member(BOB, BOB, "leave")
    assert room.state()["m.room.member", BOB].membership == "leave"
