"""The end of a room, beside what was told of it."""

import pytest

from appservice.intake.state_fetcher import PAGE, RETENTION_MS, timeline_pages
from federation.matrix.errors import MatrixError
from tests.appservice.local_users.conftest import living
from tests.appservice.local_users.setup import Living
from tests.appservice.local_users.test_sending import ALICE, GHOST, MESSAGE, ROOM

__all__ = ["living"]


async def read(living: Living, room_id: str = ROOM) -> list[tuple[int, int]]:
    """Of each page, how many events it has, and how many of them were told."""
    parts = living.parts
    found = timeline_pages(parts.client, parts.database, room_id, GHOST, living.rooms.now)
    return [(len(events), len(told)) async for events, told in found]


async def test_it_is_read_back_to_where_all_was_told(living: Living) -> None:
    """Page by page."""
    living.rooms.room(ROOM, GHOST)
    for n in range(2 * PAGE):
        living.rooms.happens(ROOM, ALICE, MESSAGE, {"body": f"{n}"})
    await living.tell()
    assert await read(living) == [(PAGE, PAGE)]
    for n in range(10):
        living.rooms.happens(ROOM, ALICE, MESSAGE, {"body": f"{n}"})
    assert await read(living) == [(PAGE, PAGE - 10), (PAGE, PAGE)]


async def test_what_is_old_is_left_out(living: Living) -> None:
    """Nobody knows any more whether it was told."""
    living.rooms.room(ROOM, GHOST)
    living.rooms.now += RETENTION_MS
    living.rooms.happens(ROOM, ALICE, MESSAGE, {"body": "new"}, ts=living.rooms.now)
    assert await read(living) == [(1, 0)]


async def test_who_may_not_look_is_refused(living: Living) -> None:
    living.rooms.happened[ROOM] = []
    with pytest.raises(MatrixError, match="M_FORBIDDEN"):
        await read(living)
