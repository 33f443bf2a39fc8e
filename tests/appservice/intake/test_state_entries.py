"""Conversion between state events and rows."""

from appservice.intake.received_event import ReceivedEvent, read
from appservice.intake.state_entries import to_entry, to_event, to_key
from storage.appservice.rooms import CachedEntry
from tests.appservice.events import ALICE, GHOST, ROOM, member, message
from tests.appservice.intakes import OURS


def received(event: object) -> ReceivedEvent:
    found = read(event)
    assert isinstance(found, ReceivedEvent)
    return found


def test_round_trip() -> None:
    """Nothing is lost."""
    event = received(message(type="a\0b", state_key="c\0d", content={"\0": 1.5}))
    entry = to_entry(event, OURS.owns_user)
    kept = CachedEntry(
        entry.event_id, entry.type, entry.state_key, entry.sender, entry.ts, entry.content, entry.is_redacted
    )
    assert to_event(ROOM, kept) == event.event
    assert (entry.membership, entry.is_local, entry.invite_state) == (None, False, None)


def test_member_entries_mark_ghosts() -> None:
    """With their membership; other entries have neither."""
    for user, is_ours in ((GHOST, True), (ALICE, False), ("a\0b", False)):
        entry = to_entry(received(member("$1", user, "join")), OURS.owns_user)
        assert (entry.membership, entry.is_local) == ("join", is_ours)
    entry = to_entry(received(message(type="io.other", state_key=GHOST)), OURS.owns_user)
    assert (entry.membership, entry.is_local) == (None, False)
    for odd in ("a\0", "x" * 60_000, ""):
        assert to_entry(received(member("$1", GHOST, odd)), OURS.owns_user).membership == "leave"


def test_unencodable_text_matches_nothing() -> None:
    """A name with a lone surrogate."""
    assert to_key("\ud800") == b"?"
    assert to_key("é") == "é".encode()
