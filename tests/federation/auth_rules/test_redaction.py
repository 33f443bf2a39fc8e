"""Whether a redaction is applied (room version 3, "Handling redactions")."""

import pytest

from federation.auth_rules.check import is_redaction_allowed
from federation.events import Pdu
from federation.matrix.room_version import ROOM_VERSIONS
from tests.support.rooms import ALICE, BOB, CAROL, Room, public_room

ERIN = "@erin:c.example"


def redaction(room: Room, sender: str, target: Pdu) -> Pdu:
    return room.propose("m.room.redaction", sender, {}, redacts=target.event_id)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_who_may_redact(version: str) -> None:
    """Users with the redact level, and users of the server that sent the event."""
    room = public_room(version, BOB, CAROL, ERIN)
    message, state = room.say(CAROL), room.state()
    for sender, applied in ((ALICE, True), (BOB, True), (CAROL, True), (ERIN, True)):
        assert is_redaction_allowed(redaction(room, sender, message), message, state, room.version) is applied
    other = room.say(ALICE)
    assert not is_redaction_allowed(redaction(room, CAROL, other), other, state, room.version)
    assert is_redaction_allowed(redaction(room, BOB, other), other, state, room.version)


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_the_redact_level(version: str) -> None:
    """50 unless the power levels say otherwise."""
    room = public_room(version, BOB, levels={"redact": 60})
    message = room.say(ALICE)
    assert not is_redaction_allowed(redaction(room, BOB, message), message, room.state(), room.version)
    assert is_redaction_allowed(redaction(room, ALICE, message), message, room.state(), room.version)


def test_a_redaction_applies_to_its_target_in_its_room() -> None:
    room = public_room("12")
    message, other = room.say(ALICE), room.say(ALICE, "other")
    made = redaction(room, ALICE, message)
    assert is_redaction_allowed(made, message, room.state(), room.version)
    assert not is_redaction_allowed(made, other, room.state(), room.version)
    assert not is_redaction_allowed(message, message, room.state(), room.version)
    elsewhere = public_room("12", room_name="elsewhere")
    foreign = elsewhere.say(ALICE)
    pointing = room.propose("m.room.redaction", ALICE, {}, redacts=foreign.event_id)
    assert not is_redaction_allowed(pointing, foreign, room.state(), room.version)
