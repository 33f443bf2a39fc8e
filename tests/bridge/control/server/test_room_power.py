"""Power levels in few lines."""

from bridge.control.server.rooms import MOST_USERS_WITH_POWER, power
from federation.matrix.room_version import ROOM_VERSIONS


def test_what_holds_where_nothing_is_said() -> None:
    """The defaults of the specification."""
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


def test_the_mightiest_are_shown() -> None:
    """As many as a person reads, and how many more there are."""
    users = {f"@{number:03}:a.test": number for number in range(MOST_USERS_WITH_POWER + 5)}
    said = power({"users": users, "ban": 70, "state_default": "60"}, ROOM_VERSIONS["11"])
    assert list(said["users"].values()) == list(range(MOST_USERS_WITH_POWER + 4, 4, -1))
    assert said["users_left_out"] == 5
    assert (said["ban"], said["state_default"]) == (70, 50)


def test_levels_are_read_as_the_room_reads_them() -> None:
    """In an old version "60" is one; and what is none is passed over."""
    content = {"users": {"@a:b": "60", "@c:d": None, "@e:f": {}}, "state_default": "60", "kick": [1]}
    said = power(content, ROOM_VERSIONS["9"])
    assert (said["users"], said["state_default"], said["kick"]) == ({"@a:b": 60}, 60, 50)
    assert power({"users": ["@a:b"]}, ROOM_VERSIONS["12"])["users"] == {}
