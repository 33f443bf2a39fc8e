"""Rule 4: `m.federate`."""

from typing import Any

import pytest

from federation.auth_rules import Allowed, Verdict
from federation.matrix.room_version import ROOM_VERSIONS
from tests.federation.auth_rules.refusals import RefusalCase, assert_refused, cases_of, refused_by
from tests.support.rooms import ALICE, BOB, Room, public_room

CLOSED: dict[str, Any] = {"m.federate": False}
OPEN: dict[str, Any] = {"m.federate": True}


@refused_by("federate")
def a_remote_user_joins(version: str) -> Verdict:
    room = public_room(version, **CLOSED)
    return room.verdict(room.propose("m.room.member", BOB, {"membership": "join"}, BOB))


@refused_by("federate")
def a_remote_user_sends_a_message(version: str) -> Verdict:
    room = public_room(version, **CLOSED)
    return room.verdict(room.propose("m.room.message", BOB, {}))


@refused_by("federate")
def a_remote_user_is_invited(version: str) -> Verdict:
    """The sender is local; as in Synapse, the target must be local as well."""
    room = public_room(version, **CLOSED)
    return room.verdict(room.propose("m.room.member", ALICE, {"membership": "invite"}, BOB))


@refused_by("federate")
def any_value_but_true_closes_the_room(version: str) -> Verdict:
    """As in Synapse: `null`, `"true"` and 1 do."""
    verdict: Verdict = Allowed()
    odd: Any
    for odd in ("true", 1, None, "false", 0, {}):
        of: dict[str, Any] = {"m.federate": odd}
        room = public_room(version, **of)
        verdict = room.verdict(room.propose("m.room.member", BOB, {"membership": "join"}, BOB))
        if isinstance(verdict, Allowed):
            break
    return verdict


@pytest.mark.parametrize(("version", "refusal"), cases_of(__name__))
def test_refusals(version: str, refusal: RefusalCase) -> None:
    """Each is refused by the given rule, with its number in the version."""
    assert_refused(version, refusal)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_who_may_take_part(version: str) -> None:
    """All users if it is absent or `true`; users of the creator's server always."""
    public_room(version, BOB)
    public_room(version, BOB, **OPEN)
    room = public_room(version, "@erin:a.example", **CLOSED)
    room.say("@erin:a.example")
    assert room.state()["m.room.create", ""].content["m.federate"] is False


def test_the_sender_of_the_create_event_decides() -> None:
    """In version 12 the room id has no domain; in all versions the domain of the sender counts."""
    room = Room("12", creator=BOB, **CLOSED)
    room.join(BOB)
    assert isinstance(room.verdict(room.propose("m.room.message", BOB, {})), Allowed)
