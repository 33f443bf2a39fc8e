"""The summary of power levels."""

from bridge.control.server.rooms import MAX_POWER_USERS, power
from federation.matrix.room_version import ROOM_VERSIONS


def test_without_an_event_the_defaults_apply() -> None:
    """Those of the specification."""
    assert power(None, ROOM_VERSIONS["11"]) == {
        "is_set": False,
        "users": {},
        "users_left_out": 0,
        "users_default": 0,
        "events_default": 0,
        "state_default": 50,
        "invite": 0,
        "kick": 50,
        "ban": 50,
        "redact": 50,
    }


def test_the_users_with_the_highest_levels_are_shown() -> None:
    """Up to a limit, with the number of others."""
    users = {f"@{number:03}:a.test": number for number in range(MAX_POWER_USERS + 5)}
    summary = power({"users": users, "ban": 70, "state_default": "60"}, ROOM_VERSIONS["11"])
    assert list(summary["users"].values()) == list(range(MAX_POWER_USERS + 4, 4, -1))
    assert summary["users_left_out"] == 5
    assert (summary["ban"], summary["state_default"]) == (70, 50)


def test_levels_are_parsed_as_in_the_room_version() -> None:
    """Old versions accept "60". Invalid levels are ignored."""
    content = {"users": {"@a:b": "60", "@c:d": None, "@e:f": {}}, "state_default": "60", "kick": [1]}
    summary = power(content, ROOM_VERSIONS["9"])
    assert (summary["users"], summary["state_default"], summary["kick"]) == ({"@a:b": 60}, 60, 50)
    assert power({"users": ["@a:b"]}, ROOM_VERSIONS["12"])["users"] == {}
