"""Transaction keys."""

import re

from appservice.registration.tokens import transaction_key

GHOST, ROOM = "@_agent_a:their.server", "!r:their.server"


def test_key_depends_on_sender_and_room() -> None:
    """And is deterministic."""
    key = transaction_key(GHOST, ROOM, "1")
    assert key == transaction_key(GHOST, ROOM, "1") == "5ca9ad296351177c44b342390e06f25e"
    assert re.fullmatch("[0-9a-f]{32}", key)
    others = [
        transaction_key(GHOST, ROOM, "2"),
        transaction_key(GHOST, ROOM + "1", ""),
        transaction_key("@_agent_b:their.server", ROOM, "1"),
        transaction_key(GHOST, "!s:their.server", "1"),
        transaction_key(GHOST, ROOM, "\ud800"),
    ]
    assert len({key, *others}) == 6
