"""Rules 5.2 and 5.3.5: restricted joins."""

from typing import Any

import pytest

from federation.auth_rules import Allowed, Verdict
from federation.matrix.room_version import ROOM_VERSIONS
from tests.federation.auth_rules.refusals import RefusalCase, assert_refused, cases_of, refused_by
from tests.support.rooms import ALICE, BOB, CAROL, DAVE, Room, public_room

A, B, C = "a.example", "b.example", "c.example"
RESTRICTED = ["8", "9", "10", "11", "12"]


def restricted_room(version: str, rule: str = "restricted", **levels: Any) -> Room:
    """Bob, and Dave with less power, are joined to a restricted room."""
    room = public_room(version, BOB, DAVE, levels={"invite": 50, **levels})
    room.join_rule(ALICE, rule)
    return room


def join(room: Room, authoriser: object, *servers: str) -> Verdict:
    content = {"membership": "join", "join_authorised_via_users_server": authoriser}
    return room.verdict(room.propose("m.room.member", CAROL, content, CAROL, also_signed_by=servers))


@refused_by("member.authoriser_signature")
def not_signed_by_the_authorisers_server(version: str) -> Verdict:
    return join(restricted_room(version), BOB)


@refused_by("member.authoriser_signature")
def signed_by_a_third_server(version: str) -> Verdict:
    return join(restricted_room(version), BOB, A)


@refused_by("member.authoriser_signature")
def an_authoriser_that_is_not_a_user_id(version: str) -> Verdict:
    return join(restricted_room(version), ["@bob:b.example"], B)


@refused_by("member.authoriser_signature")
def an_authoriser_of_no_server(version: str) -> Verdict:
    return join(restricted_room(version), "bob", B)


@refused_by("join.authoriser")
def without_authoriser(version: str) -> Verdict:
    room = restricted_room(version)
    return room.verdict(room.propose("m.room.member", CAROL, {"membership": "join"}, CAROL))


@refused_by("join.authoriser")
def an_authoriser_without_the_power_to_invite(version: str) -> Verdict:
    return join(restricted_room(version), DAVE, "d.example")


@refused_by("join.authoriser")
def an_authoriser_who_is_not_joined(version: str) -> Verdict:
    room = restricted_room(version)
    room.member(BOB, BOB, "leave")
    return join(room, BOB, B)


@refused_by("join.authoriser", ["12"])
def a_creator_who_is_not_joined(version: str) -> Verdict:
    """Infinite power does not replace the membership."""
    room = restricted_room(version)
    room.member(ALICE, ALICE, "leave")
    return join(room, ALICE, A)


@pytest.mark.parametrize(("version", "refusal"), cases_of(__name__))
def test_refusals(version: str, refusal: RefusalCase) -> None:
    """Each is refused by the given rule, with its number in the version."""
    assert_refused(version, refusal)


@pytest.mark.parametrize("version", RESTRICTED)
def test_valid_authorisers(version: str) -> None:
    """A joined user with the power to invite, whose server has signed; also a creator in version 12."""
    rules = ["restricted", *(["knock_restricted"] if ROOM_VERSIONS[version].knock_restricted_joins else [])]
    for rule in rules:
        assert isinstance(join(restricted_room(version, rule), BOB, B), Allowed)
        assert isinstance(join(restricted_room(version, rule), ALICE, A), Allowed)
        assert isinstance(join(restricted_room(version, rule, invite=0), DAVE, "d.example"), Allowed)


@pytest.mark.parametrize("version", RESTRICTED)
def test_invited_and_joined_users_need_no_authoriser(version: str) -> None:
    """5.3.5.1."""
    room = restricted_room(version)
    room.member(BOB, CAROL, "invite")
    room.join(CAROL)
    room.join(CAROL, content={"displayname": "Carol"})


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_other_membership_events_may_have_the_key(version: str) -> None:
    """As in Synapse, only a join must be signed by the authoriser's server: a leave copied from a join is not
    refused."""
    room = public_room(version, CAROL)
    room.member(CAROL, CAROL, "leave", content={"join_authorised_via_users_server": BOB})
