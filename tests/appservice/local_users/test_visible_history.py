"""What of a room's history somebody may see."""

from typing import Any

import pytest

from appservice.local_users.lookups import NOTHING, Sight, Told, sees_everything, shown, sight
from federation.events.room_event import RoomEvent

ALICE = "@alice:their.server"
COOK = "@_agent_cook:their.server"


def told(type_: str, state_key: str | None = None, before: Any = None, **content: Any) -> Told:
    unsigned = {} if before is None else {"prev_content": before}
    return Told(RoomEvent("$x", "!room", COOK, type_, content, 1, state_key), unsigned)


def visibility(value: str, before: str | None = None) -> Told:
    previous = None if before is None else {"history_visibility": before}
    return told("m.room.history_visibility", "", previous, history_visibility=value)


def member(membership: str, before: str | None = None, user: str = ALICE) -> Told:
    return told("m.room.member", user, before and {"membership": before}, membership=membership)


def message(body: str) -> Told:
    return told("m.room.message", body=body)


def bodies(events: list[RoomEvent]) -> list[Any]:
    return [event.content["body"] for event in events if event.type == "m.room.message"]


def test_what_decides_is_read_from_the_state() -> None:
    """The user's own membership, and nobody else's."""
    state = [visibility("joined").event, member("invite").event, member("join", user=COOK).event]
    assert sight(ALICE, state) == Sight({"history_visibility": "joined"}, "invite")
    assert sight("@nobody:x", []) == Sight(None, None)


def test_a_stretch_is_judged_from_its_end_backwards() -> None:
    """What changes the membership or the visibility is seen by whoever sees either side of it."""
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
    after = Sight({"history_visibility": "invited"}, "leave")
    seen = shown(ALICE, newest_first, after, is_joined_now=False)
    assert bodies(seen) == ["there", "invited"]
    assert [event.content.get("membership") for event in seen if event.state_key == ALICE] == [
        "leave",
        "join",
    ]


def test_where_it_is_not_known_what_decided_nothing_is_shown() -> None:
    """A homeserver says that something was replaced, and not by what: until the next one that it tells of."""
    replaced = Told(visibility("shared").event, {"replaces_state": "$before"})
    newest_first = [message("now"), replaced, message("unknown"), visibility("x", "world_readable")]
    newest_first.append(message("for the world"))
    now = Sight({"history_visibility": "shared"}, "join")
    assert bodies(shown(ALICE, newest_first, now, is_joined_now=True)) == ["now", "for the world"]
    assert not NOTHING.lets_see(is_joined_now=True)


@pytest.mark.parametrize(
    ("now", "said", "all_of_it"),
    [
        (Sight(None, "join"), visibility("shared"), True),
        (Sight(None, "join"), None, True),
        (Sight(None, "join"), visibility("world_readable"), True),
        (Sight(None, None), visibility("world_readable"), True),
        (Sight(None, "leave"), visibility("shared"), False),
        (Sight(None, None), None, False),
        (Sight(None, "join"), visibility("joined"), False),
        (Sight(None, "join"), visibility("invited"), False),
        (Sight(None, "join"), visibility("shared", "joined"), False),
        (Sight(None, "join"), Told(visibility("shared").event, {"replaces_state": "$x"}), False),
    ],
)
def test_most_see_everything(now: Sight, said: Told | None, all_of_it: bool) -> None:
    """Who is there now, if it was never hidden from anybody."""
    assert sees_everything(now, said) is all_of_it
