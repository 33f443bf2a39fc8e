"""History visibility."""

from typing import Any

import pytest

from appservice.local_users.lookups import (
    HIDDEN,
    TimelineEvent,
    Visibility,
    sees_everything,
    visibility_for,
    visible_events,
)
from federation.events.room_event import RoomEvent

ALICE = "@alice:their.server"
COOK = "@_agent_cook:their.server"


def told(type_: str, state_key: str | None = None, before: Any = None, **content: Any) -> TimelineEvent:
    unsigned = {} if before is None else {"prev_content": before}
    return TimelineEvent(RoomEvent("$x", "!room", COOK, type_, content, 1, state_key), unsigned)


def visibility(value: str, before: str | None = None) -> TimelineEvent:
    previous = None if before is None else {"history_visibility": before}
    return told("m.room.history_visibility", "", previous, history_visibility=value)


def member(membership: str, before: str | None = None, user: str = ALICE) -> TimelineEvent:
    return told("m.room.member", user, before and {"membership": before}, membership=membership)


def message(body: str) -> TimelineEvent:
    return told("m.room.message", body=body)


def bodies(events: list[RoomEvent]) -> list[Any]:
    return [event.content["body"] for event in events if event.type == "m.room.message"]


def test_visibility_from_state() -> None:
    """Only the user's own membership counts."""
    state = [visibility("joined").event, member("invite").event, member("join", user=COOK).event]
    assert visibility_for(ALICE, state) == Visibility({"history_visibility": "joined"}, "invite")
    assert visibility_for("@nobody:x", []) == Visibility(None, None)


def test_events_are_judged_backwards() -> None:
    """An event that changes membership or visibility is visible if either side of it is."""
    newest_first = [
        message("after"),
        member("leave", "join"),
        message("there"),
        member("join", "invite"),
        message("invited"),
        visibility("invited", "joined"),
        message("hidden"),
        member("invite"),
        message("before"),
    ]
    after = Visibility({"history_visibility": "invited"}, "leave")
    seen = visible_events(ALICE, newest_first, after, is_joined_now=False)
    assert bodies(seen) == ["there", "invited"]
    assert [event.content.get("membership") for event in seen if event.state_key == ALICE] == ["leave", "join"]


def test_unknown_previous_content_hides_events() -> None:
    """Until the next event that determines it."""
    replaced = TimelineEvent(visibility("shared").event, {"replaces_state": "$before"})
    newest_first = [message("now"), replaced, message("unknown"), visibility("x", "world_readable")]
    newest_first.append(message("for the world"))
    now = Visibility({"history_visibility": "shared"}, "join")
    assert bodies(visible_events(ALICE, newest_first, now, is_joined_now=True)) == ["now", "for the world"]
    assert not HIDDEN.lets_see(is_joined_now=True)


@pytest.mark.parametrize(
    ("now", "said", "all_of_it"),
    [
        (Visibility(None, "join"), visibility("shared"), True),
        (Visibility(None, "join"), None, True),
        (Visibility(None, "join"), visibility("world_readable"), True),
        (Visibility(None, None), visibility("world_readable"), True),
        (Visibility(None, "leave"), visibility("shared"), False),
        (Visibility(None, None), None, False),
        (Visibility(None, "join"), visibility("joined"), False),
        (Visibility(None, "join"), visibility("invited"), False),
        (Visibility(None, "join"), visibility("shared", "joined"), False),
        (Visibility(None, "join"), TimelineEvent(visibility("shared").event, {"replaces_state": "$x"}), False),
    ],
)
def test_members_of_never_hidden_rooms_see_everything(
    now: Visibility, said: TimelineEvent | None, all_of_it: bool
) -> None:
    """No event has to be examined."""
    assert sees_everything(now, said) is all_of_it
