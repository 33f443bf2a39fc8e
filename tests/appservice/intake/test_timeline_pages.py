"""Reading the end of a room's timeline with the pushed ids."""

import pytest

from appservice.intake.state_fetcher import PAGE, RETENTION_MS, timeline_pages
from federation.matrix.errors import MatrixError
from tests.appservice.local_users.conftest import living
from tests.appservice.local_users.setup import Living
from tests.appservice.local_users.test_sending import ALICE, GHOST, MESSAGE, ROOM

__all__ = ["living"]


async def read(living: Living, room_id: str = ROOM) -> list[tuple[int, int]]:
    """For each page, the number of events and of pushed ones."""
    parts = living.parts
    found = timeline_pages(parts.client, parts.database, room_id, GHOST, living.rooms.now)
    return [(len(events), len(told)) async for events, told in found]


async def test_reads_back_to_a_fully_pushed_page(living: Living) -> None:
    """Page by page."""
    living.rooms.room(ROOM, GHOST)
    for n in range(2 * PAGE):
        living.rooms.happens(ROOM, ALICE, MESSAGE, {"body": f"{n}"})
    await living.tell()
    assert await read(living) == [(PAGE, PAGE)]
    for n in range(10):
        living.rooms.happens(ROOM, ALICE, MESSAGE, {"body": f"{n}"})
    assert await read(living) == [(PAGE, PAGE - 10), (PAGE, PAGE)]


async def test_old_events_are_skipped(living: Living) -> None:
    """Their ids are no longer stored."""
    living.rooms.room(ROOM, GHOST)
    living.rooms.now += RETENTION_MS
    living.rooms.happens(ROOM, ALICE, MESSAGE, {"body": "new"}, ts=living.rooms.now)
    assert await read(living) == [(1, 0)]


async def test_unreadable_room_raises(living: Living) -> None:
    """The homeserver's refusal is raised."""
    living.rooms.happened[ROOM] = []
    with pytest.raises(MatrixError, match="M_FORBIDDEN"):
        await read(living)
