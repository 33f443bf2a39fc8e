"""Finding events by their transaction keys."""

from appservice.intake.received_event import TRANSACTION_KEY
from appservice.intake.state_fetcher import MAX_PAGES, PAGE, RETENTION_MS
from appservice.local_users.deduplication import SentEventIndex
from tests.appservice.local_users.setup import AttachedNode
from tests.appservice.local_users.test_sending import ALICE, GHOST, MESSAGE, OTHER, ROOM

KEY = "0" * 32


def before_of(attached: AttachedNode) -> SentEventIndex:
    parts = attached.parts
    return SentEventIndex(parts.client, parts.rooms, parts.database, now_ms=parts.now_ms)


def says(attached: AttachedNode, sender: str, key: str) -> str:
    return attached.rooms.happens(ROOM, sender, MESSAGE, {"body": "x", TRANSACTION_KEY: key})


async def test_pushed_events_are_found_in_the_database(attached: AttachedNode) -> None:
    """The unpushed end of the room is scanned once."""
    attached.rooms.room(ROOM, GHOST)
    sent = says(attached, GHOST, KEY)
    await attached.tell()
    before = before_of(attached)
    for _ in range(3):
        assert await before.find(GHOST, ROOM, KEY) == sent
        assert await before.find(GHOST, ROOM, "1" * 32) is None
    assert len(attached.asked("messages")) == 1
    before.invalidate(GHOST, ROOM)
    assert await before.find(GHOST, ROOM, "1" * 32) is None
    assert len(attached.asked("messages")) == 2
    await before.close()


async def test_unpushed_events_are_found_in_the_room(attached: AttachedNode) -> None:
    """Also behind many other events, within a limit."""
    attached.rooms.room(ROOM, GHOST, OTHER)
    await attached.tell()
    sent = [says(attached, GHOST, KEY), says(attached, OTHER, KEY)]
    for n in range(300):
        attached.rooms.happens(ROOM, ALICE, MESSAGE, {"body": f"{n}"})
    before = before_of(attached)
    assert await before.find(GHOST, ROOM, KEY) == sent[0]
    assert len(attached.asked("messages")) == 4
    asked = len(attached.asked("messages"))
    # The other sender may not read the room.
    assert await before.find(OTHER, ROOM, KEY) == sent[1]
    assert before._scanned.get((GHOST, ROOM))
    for n in range(MAX_PAGES * PAGE):
        attached.rooms.happens(ROOM, ALICE, MESSAGE, {"body": f"{n}"})
    asked = len(attached.asked("messages"))
    assert await before_of(attached).find(GHOST, ROOM, KEY) is None
    assert len(attached.asked("messages")) == asked + MAX_PAGES


async def test_never_pushed_events_are_found(attached: AttachedNode) -> None:
    """A killed homeserver loses its queue and continues with newer events."""
    attached.rooms.room(ROOM, GHOST)
    for n in range(2 * PAGE):
        attached.rooms.happens(ROOM, ALICE, MESSAGE, {"body": f"{n}"})
    await attached.tell()
    sent = says(attached, GHOST, KEY)
    attached.rooms.untold.clear()
    for n in range(PAGE // 2):
        attached.rooms.happens(ROOM, ALICE, MESSAGE, {"body": f"{n}"})
    await attached.tell()
    assert await before_of(attached).find(GHOST, ROOM, KEY) == sent
    # The second page is fully pushed.
    assert len(attached.asked("messages")) == 2


async def test_old_events_are_not_scanned(attached: AttachedNode) -> None:
    """They are not repeated any more, and their ids are pruned."""
    attached.rooms.room(ROOM, GHOST)
    for n in range(3 * PAGE):
        attached.rooms.happens(ROOM, ALICE, MESSAGE, {"body": f"{n}"})
    attached.rooms.now += RETENTION_MS
    assert await before_of(attached).find(GHOST, ROOM, KEY) is None
    assert len(attached.asked("messages")) == 1


async def test_unreadable_room(attached: AttachedNode) -> None:
    """The send itself raises the refusal; the scan is repeated later."""
    attached.rooms.room(ROOM)
    before = before_of(attached)
    assert await before.find(GHOST, ROOM, KEY) is None
    attached.rooms.moves(ROOM, GHOST, "join")
    sent = says(attached, GHOST, KEY)
    assert await before.find(GHOST, ROOM, KEY) == sent


async def test_invalid_timeline_is_tolerated(attached: AttachedNode) -> None:
    """No field has to be valid."""
    attached.rooms.room(ROOM, GHOST)
    timeline_pages = iter(
        [{"chunk": [5, {}, {"event_id": 5}, {"event_id": "$x", "content": []}], "end": 5}, {"chunk": {}}]
    )
    before = before_of(attached)
    attached.rooms._messages = lambda room_id, query: next(timeline_pages)  # type: ignore[method-assign]
    for _ in range(2):
        assert await before.find(GHOST, ROOM, KEY) is None
        before.invalidate(GHOST, ROOM)
