"""Rule 4 of room versions 3 to 5: `m.room.aliases`."""

import pytest

from federation.auth_rules import Allowed, Refused, Verdict
from federation.matrix.room_version import ROOM_VERSIONS
from tests.federation.auth_rules.refusals import RefusalCase, assert_refused, cases_of, refused_by
from tests.support.rooms import ALICE, BOB, CAROL, public_room


@refused_by("aliases.state_key")
def a_message_event(version: str) -> Verdict:
    room = public_room(version)
    return room.verdict(room.propose("m.room.aliases", ALICE, {"aliases": []}))


@refused_by("aliases.domain")
def aliases_of_another_server(version: str) -> Verdict:
    room = public_room(version)
    return room.verdict(room.propose("m.room.aliases", ALICE, {"aliases": []}, "b.example"))


@refused_by("aliases.domain")
def aliases_of_no_server(version: str) -> Verdict:
    room = public_room(version)
    return room.verdict(room.propose("m.room.aliases", ALICE, {"aliases": []}, ""))


@pytest.mark.parametrize(("version", "refusal"), cases_of(__name__))
def test_refusals(version: str, refusal: RefusalCase) -> None:
    """Each is refused by the given rule, with its number in the version."""
    assert_refused(version, refusal)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_the_special_case_ends_with_version_5(version: str) -> None:
    """Until version 5 any user may set the aliases of their server, even without being in the room; from
    version 6 on it is an ordinary state event."""
    room = public_room(version, BOB)
    special = room.version.aliases_have_their_own_rule
    by_nobody = room.verdict(room.propose("m.room.aliases", CAROL, {"aliases": []}, "c.example"))
    assert isinstance(by_nobody, Allowed if special else Refused)
    elsewhere = room.verdict(room.propose("m.room.aliases", BOB, {"aliases": []}, "c.example"))
    assert isinstance(elsewhere, Refused if special else Allowed)
