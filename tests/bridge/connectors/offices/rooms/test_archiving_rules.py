"""Decisions and texts about archiving."""

import pytest

from bridge.connectors.offices.rooms.archiving import (
    archive_notice,
    archived_content,
    check_interval,
    has_remote_members,
    used_content,
)
from bridge.connectors.offices.rooms.office_room import MEMBER
from federation.events.room_event import RoomEvent


def test_archiving_changes_one_key_of_the_state() -> None:
    """The key is removed when the office is used again."""
    content = {"office_id": "a", "node": "here.test"}
    archived = archived_content(content)
    assert archived == {**content, "archived": True}
    assert archived_content(archived) == archived
    assert used_content(archived) == used_content(content) == content


@pytest.mark.parametrize(
    ("after", "interval"),
    [(1, 1.0), (10, 1.0), (3_600, 360.0), (30 * 86_400.0, 3_600.0), (1e12, 3_600.0), (None, 3_600.0)],
)
def test_the_interval_of_checks(after: float | None, interval: float) -> None:
    """A tenth of the period, but between a second and an hour."""
    assert check_interval(after) == interval


HERE, THERE, GONE = "@a/boss:here.test", "@a/hands:there.test", "@a/feet:there.test"


@pytest.mark.parametrize(
    ("user", "content", "is_there"),
    [
        (THERE, {"name": "hands"}, True),
        (THERE, {}, False),
        # It is no longer in the room.
        (GONE, {"name": "feet"}, False),
        # Local members are known from the records.
        (HERE, {"name": "boss"}, False),
    ],
)
def test_remote_members_are_found_in_the_room(user: str, content: dict[str, object], is_there: bool) -> None:
    """By their own state events, while they are joined."""
    events = [RoomEvent("$x", "!a", user, MEMBER, content, 1, state_key=user)]
    joined = {HERE, THERE, "@palaver:here.test"}
    assert has_remote_members(events, joined, lambda one: one.endswith(":here.test")) is is_there
    assert not has_remote_members([], joined, lambda one: False)


def test_the_notice_names_the_time_and_what_to_do() -> None:
    text = archive_notice(31 * 86_400_000).plain
    assert "31 d" in text
    assert "joins" in text
