"""Reading the end of a room's timeline with the pushed ids."""

import pytest

from appservice.intake.state_fetcher import PAGE, RETENTION_MS, timeline_pages
from federation.matrix.errors import MatrixError
from tests.appservice.local_users.conftest import attached
from tests.appservice.local_users.setup import AttachedNode
from tests.appservice.local_users.test_sending import ALICE, GHOST, MESSAGE, ROOM

__all__ = ["attached"]


async def read(attached: AttachedNode, room_id: str = ROOM) -> list[tuple[int, int]]:
    """For each page, the number of events and of pushed ones."""
    parts = attached.parts
    found = timeline_pages(parts.client, parts.database, room_id, GHOST, attached.rooms.now)
    return [(len(events), len(told)) async for events, told in found]


async def test_reads_back_to_a_fully_pushed_page(attached: AttachedNode) -> None:
    """Page by page."""
    attached.rooms.room(ROOM, GHOST)
    for n in range(2 * PAGE):
        attached.rooms.happens(ROOM, ALICE, MESSAGE, {"body": f"{n}"})
    await attached.tell()
    assert await read(attached) == [(PAGE, PAGE)]
    for n in range(10):
        attached.rooms.happens(ROOM, ALICE, MESSAGE, {"body": f"{n}"})
    assert await read(attached) == [(PAGE, PAGE - 10), (PAGE, PAGE)]


async def test_old_events_are_skipped(attached: AttachedNode) -> None:
    """Their ids are no longer stored."""
    attached.rooms.room(ROOM, GHOST)
    attached.rooms.now += RETENTION_MS
    attached.rooms.happens(ROOM, ALICE, MESSAGE, {"body": "new"}, ts=attached.rooms.now)
    assert await read(attached) == [(1, 0)]


async def test_unreadable_room_raises(attached: AttachedNode) -> None:
    """The homeserver's refusal is raised."""
    attached.rooms.happened[ROOM] = []
    with pytest.raises(MatrixError, match="M_FORBIDDEN"):
        await read(attached)
