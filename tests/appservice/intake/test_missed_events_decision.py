"""Which events of a room the homeserver has not told, and never will."""

from typing import Any

from appservice.intake.missed_events import missed_events

GHOST, OTHER = "@_agent_a:their.server", "@_agent_b:their.server"


def is_ours(user: str) -> bool:
    return user.startswith("@_agent_")


def message(event_id: str) -> dict[str, Any]:
    return {"event_id": event_id, "type": "m.room.message", "content": {"body": event_id}}


def member(event_id: str, user: str, membership: str, before: str | None = None) -> dict[str, Any]:
    unsigned = {} if before is None else {"prev_content": {"membership": before}}
    content = {"membership": membership}
    return {
        "event_id": event_id, "type": "m.room.member", "state_key": user, "content": content,
        "unsigned": unsigned,
    }  # fmt: skip


def missed(*oldest_first: Any, pushed: str, joined: tuple[str, ...] = (GHOST,), before: str = "") -> str:
    """The ids of what is missing, as the letters of a word."""
    events = [message(one) if isinstance(one, str) else one for one in oldest_first]
    found = missed_events(
        events[::-1], pushed=set(pushed), joined=joined, is_ours=is_ours, before=set(before)
    )
    return "".join(event["event_id"] for event in found)


def test_what_was_not_told_after_something_that_was_is_missing() -> None:
    """In its order, at the end and between what was told."""
    assert missed(*"abcdef", pushed="abd") == "cef"
    assert missed(*"abc", pushed="abc") == ""


def test_what_is_older_than_all_that_was_told_was_not_to_be_told() -> None:
    """Nobody of ours was there then, or nobody knows any more."""
    assert missed(*"abcd", pushed="c") == "d"
    assert missed(*"abcd", pushed="") == ""


def test_what_is_newer_than_what_is_being_told_comes_by_itself() -> None:
    """And what is not among the end of the room is not known to be older."""
    assert missed(*"abcdef", pushed="a", before="d") == "bc"
    assert missed(*"abcdef", pushed="a", before="df") == "bc"
    assert missed(*"abc", pushed="a", before="x") == ""


def test_what_happened_while_none_of_ours_was_there_was_not_to_be_told() -> None:
    """Who has only changed the name was there before."""
    gone, back = member("3", GHOST, "leave", "join"), member("6", GHOST, "join", "leave")
    assert missed("1", "2", gone, "4", "5", back, "7", pushed="1") == "2367"
    other = member("5", OTHER, "join", "join")
    assert missed("1", "2", gone, "4", other, back, "7", pushed="1", joined=(GHOST, OTHER)) == "234567"
    assert missed("1", "2", gone, "4", pushed="1", joined=()) == "23"
    rejected = member("3", GHOST, "leave", "invite")
    assert missed("1", "2", rejected, "4", pushed="1", joined=()) == "3"
    person = member("2", "@alice:their.server", "leave", "join")
    assert missed("1", person, "3", pushed="1") == "23"
