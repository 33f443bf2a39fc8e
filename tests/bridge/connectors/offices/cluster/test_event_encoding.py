"""Events that one process forwards to another."""

from typing import Any

import pytest

from bridge.connectors.offices.cluster.broker import OfficeMessage, decode, encode, office_message
from bridge.connectors.offices.cluster.events import decode_event, encode_event
from federation.events.room_event import RoomEvent

EVENT = RoomEvent("$e", "!r:a.test", "@alice:a.test", "m.reaction", {"m.relates_to": {"key": "✅"}}, 7)


def test_encoding_and_decoding_are_inverse() -> None:
    """For the fields that the receiver needs."""
    message = decode(encode(office_message("h", "answered", encode_event(EVENT))))
    assert isinstance(message, OfficeMessage)
    assert decode_event(message.content) == EVENT


@pytest.mark.parametrize(
    "change",
    [
        {"event_id": None}, {"room_id": 1}, {"sender": ["@a:b"]}, {"type": None}, {"content": []},
        {"origin_server_ts": "7"}, {"origin_server_ts": True},
    ],
)  # fmt: skip
def test_content_of_another_form_is_ignored(change: dict[str, Any]) -> None:
    assert decode_event({**encode_event(EVENT), **change}) is None
    assert decode_event({}) is None
