"""What one process has heard, and another one waits for."""

from typing import Any

import pytest

from bridge.connectors.offices.cluster.broker import OfficeMessage, encoded, office_message, read
from bridge.connectors.offices.cluster.events import client_error, read_passed
from federation.events.room_event import RoomEvent

EVENT = RoomEvent("$e", "!r:a.test", "@alice:a.test", "m.reaction", {"m.relates_to": {"key": "✅"}}, 7)


def test_it_arrives_as_it_was() -> None:
    """As far as it matters to who waits for it."""
    message = read(encoded(office_message("h", "answered", client_error(EVENT))))
    assert isinstance(message, OfficeMessage)
    assert read_passed(message.said) == EVENT


@pytest.mark.parametrize(
    "change",
    [
        {"event_id": None}, {"room_id": 1}, {"sender": ["@a:b"]}, {"type": None}, {"content": []},
        {"origin_server_ts": "7"}, {"origin_server_ts": True},
    ],
)  # fmt: skip
def test_what_is_none(change: dict[str, Any]) -> None:
    assert read_passed({**client_error(EVENT), **change}) is None
    assert read_passed({}) is None
