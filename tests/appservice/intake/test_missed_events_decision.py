"""Which events of a room are missing."""

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
    """The ids of the missing events, as the letters of a word."""
    events = [message(one) if isinstance(one, str) else one for one in oldest_first]
    found = missed_events(events[::-1], pushed=set(pushed), joined=joined, is_ours=is_ours, before=set(before))
    return "".join(event["event_id"] for event in found)


def test_unpushed_events_after_a_pushed_one() -> None:
    """In order, at the end and in between."""
    assert missed(*"abcdef", pushed="abd") == "cef"
    assert missed(*"abc", pushed="abc") == ""


def test_events_before_every_pushed_one() -> None:
    """No ghost was in the room then, or the ids are expired."""
    assert missed(*"abcd", pushed="c") == "d"
    assert missed(*"abcd", pushed="") == ""


def test_events_after_the_current_transaction() -> None:
    """They arrive by themselves; an id outside the read part may be newer than all of it."""
    assert missed(*"abcdef", pushed="a", before="d") == "bc"
    assert missed(*"abcdef", pushed="a", before="df") == "bc"
    assert missed(*"abc", pushed="a", before="x") == ""


def test_events_without_ghosts_in_the_room() -> None:
    """A profile change is not a join."""
    gone, back = member("3", GHOST, "leave", "join"), member("6", GHOST, "join", "leave")
    assert missed("1", "2", gone, "4", "5", back, "7", pushed="1") == "2367"
    other = member("5", OTHER, "join", "join")
    assert missed("1", "2", gone, "4", other, back, "7", pushed="1", joined=(GHOST, OTHER)) == "234567"
    assert missed("1", "2", gone, "4", pushed="1", joined=()) == "23"
    rejected = member("3", GHOST, "leave", "invite")
    assert missed("1", "2", rejected, "4", pushed="1", joined=()) == "3"
    person = member("2", "@alice:their.server", "leave", "join")
    assert missed("1", person, "3", pushed="1") == "23"
