"""Events in the form that users see."""

import pytest

from federation.events import redact_pdu
from federation.events.room_event import Member, RoomEvent, member_of, to_room_event
from federation.matrix.room_version import ROOM_VERSIONS
from tests.support.rooms import ALICE, public_room


@pytest.mark.parametrize("version", ["10", "11", "12"])
def test_events_and_redacted_events(version: str) -> None:
    """A redaction has its target, wherever its room version writes it; a redacted event is marked."""
    room = public_room(version)
    message = room.say(ALICE, "hello")
    seen = to_room_event(message, message, room.version)
    assert (seen.event_id, seen.sender, seen.content["body"]) == (message.event_id, ALICE, "hello")
    assert not seen.is_redacted
    assert to_room_event(room.create, room.create, room.version).room_id == room.room_id
    content = {"redacts": message.event_id} if ROOM_VERSIONS[version].redacts_in_content else {}
    redaction = room.send("m.room.redaction", ALICE, content, redacts=message.event_id)
    assert to_room_event(redaction, redaction, room.version).redacts == message.event_id
    gone = to_room_event(redact_pdu(message, room.version), message, room.version)
    assert (gone.is_redacted, gone.content) == (True, {})


def test_a_malformed_member_event() -> None:
    """Remote users can send any content."""
    message = {"membership": "join", "displayname": "Bob", "avatar_url": "mxc://b/c"}
    event = RoomEvent("$1", "!r", "@b:c", "m.room.member", message, 1, "@b:c")
    assert member_of(event) == Member("@b:c", "join", "Bob", "mxc://b/c")
    odd = {"membership": "join", "displayname": {"a": 1}, "avatar_url": 5}
    assert member_of(RoomEvent("$1", "!r", "@b:c", "m.room.member", odd, 1, "@b:c")) == Member("@b:c", "join")
