"""When rooms of offices are archived, and what is said of it."""

import pytest

from bridge.connectors.offices.rooms.archiving import (
    archived_content,
    is_somebody_there,
    look_every,
    notice,
    used_content,
)
from bridge.connectors.offices.rooms.office_room import MEMBER
from federation.events.room_event import RoomEvent


def test_a_room_says_that_it_is_archived_and_nothing_else_changes() -> None:
    """And that it is not, by not saying it."""
    said = {"office_id": "a", "node": "here.test"}
    archived = archived_content(said)
    assert archived == {**said, "archived": True}
    assert archived_content(archived) == archived
    assert used_content(archived) == used_content(said) == said


@pytest.mark.parametrize(
    ("after", "every"),
    [(1, 1.0), (10, 1.0), (3_600, 360.0), (30 * 86_400.0, 3_600.0), (1e12, 3_600.0), (None, 3_600.0)],
)
def test_it_is_looked_for_as_often_as_is_worth_it(after: float | None, every: float) -> None:
    """At most a tenth of the span later than it is due, or a second; and once an hour at least."""
    assert look_every(after) == every


HERE, THERE, GONE = "@a/boss:here.test", "@a/hands:there.test", "@a/feet:there.test"


@pytest.mark.parametrize(
    ("user", "content", "is_there"),
    [
        (THERE, {"name": "hands"}, True),
        (THERE, {}, False),
        # It is in the room no more.
        (GONE, {"name": "feet"}, False),
        # Of whom we know ourselves.
        (HERE, {"name": "boss"}, False),
    ],
)
def test_who_of_other_nodes_is_there_the_room_says(
    user: str, content: dict[str, object], is_there: bool
) -> None:
    """Each of itself, as long as it is in the room."""
    said = [RoomEvent("$x", "!a", user, MEMBER, content, 1, state_key=user)]
    joined = {HERE, THERE, "@palaver:here.test"}
    assert is_somebody_there(said, joined, lambda one: one.endswith(":here.test")) is is_there
    assert not is_somebody_there([], joined, lambda one: False)


def test_people_are_told_for_how_long_and_what_to_do() -> None:
    said = notice(31 * 86_400_000).plain
    assert "31 d" in said
    assert "joins" in said
