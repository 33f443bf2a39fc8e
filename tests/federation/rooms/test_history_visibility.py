"""Which servers may see which events."""

import pytest

from federation.rooms.read import can_see, membership_events_of, memberships_that_see


@pytest.mark.parametrize(
    ("content", "seen_by"),
    [
        (None, {"join", "invite", "leave", "none"}),
        ({"history_visibility": "shared"}, {"join", "invite", "leave", "none"}),
        ({"history_visibility": "world_readable"}, {"join", "invite", "leave", "none"}),
        ({"history_visibility": "invited"}, {"join", "invite"}),
        ({"history_visibility": "joined"}, {"join"}),
        ({"history_visibility": ["joined"]}, {"join", "invite", "leave", "none"}),
        ({"history_visibility": "secret"}, {"join", "invite", "leave", "none"}),
    ],
)
def test_visibility(content: dict[str, object] | None, seen_by: set[str]) -> None:
    """Unknown values count as `shared`."""
    enough = memberships_that_see(content)
    assert {one for one in ("join", "invite", "leave") if can_see(enough, [one])} == seen_by - {"none"}
    assert can_see(enough, []) == ("none" in seen_by)


def test_one_member_is_enough() -> None:
    """Whatever the memberships of the others are."""
    assert can_see({"join"}, ["leave", {"join": 1}, "join"])
    assert not can_see({"join"}, [["join"], None])


def test_members_are_those_of_the_server() -> None:
    """By the domain of their user id; only membership events."""
    state = {
        ("m.room.member", "@a:one"): "$1",
        ("m.room.member", "@b:one:8448"): "$2",
        ("m.room.topic", "@c:one"): "$3",
        ("m.room.member", "nobody"): "$4",
    }
    assert membership_events_of("one", state) == ["$1"]
