"""Finding events by their transaction keys."""

from appservice.intake.received_event import TRANSACTION_KEY
from appservice.intake.state_fetcher import MAX_PAGES, PAGE, RETENTION_MS
from appservice.local_users.deduplication import SentEventIndex
from tests.appservice.local_users.setup import Living
from tests.appservice.local_users.test_sending import ALICE, GHOST, MESSAGE, OTHER, ROOM

KEY = "0" * 32


def before_of(living: Living) -> SentEventIndex:
    parts = living.parts
    return SentEventIndex(parts.client, parts.rooms, parts.database, now_ms=parts.now_ms)


def says(living: Living, sender: str, key: str) -> str:
    return living.rooms.happens(ROOM, sender, MESSAGE, {"body": "x", TRANSACTION_KEY: key})


async def test_pushed_events_are_found_in_the_database(living: Living) -> None:
    """The unpushed end of the room is scanned once."""
    living.rooms.room(ROOM, GHOST)
    sent = says(living, GHOST, KEY)
    await living.tell()
    before = before_of(living)
    for _ in range(3):
        assert await before.find(GHOST, ROOM, KEY) == sent
        assert await before.find(GHOST, ROOM, "1" * 32) is None
    assert len(living.asked("messages")) == 1
    before.invalidate(GHOST, ROOM)
    assert await before.find(GHOST, ROOM, "1" * 32) is None
    assert len(living.asked("messages")) == 2
    await before.close()


async def test_unpushed_events_are_found_in_the_room(living: Living) -> None:
    """Also behind many other events, within a limit."""
    living.rooms.room(ROOM, GHOST, OTHER)
    await living.tell()
    sent = [says(living, GHOST, KEY), says(living, OTHER, KEY)]
    for n in range(300):
        living.rooms.happens(ROOM, ALICE, MESSAGE, {"body": f"{n}"})
    before = before_of(living)
    assert await before.find(GHOST, ROOM, KEY) == sent[0]
    assert len(living.asked("messages")) == 4
    asked = len(living.asked("messages"))
    # The other sender may not read the room.
    assert await before.find(OTHER, ROOM, KEY) == sent[1]
    assert before._scanned.get((GHOST, ROOM))
    for n in range(MAX_PAGES * PAGE):
        living.rooms.happens(ROOM, ALICE, MESSAGE, {"body": f"{n}"})
    asked = len(living.asked("messages"))
    assert await before_of(living).find(GHOST, ROOM, KEY) is None
    assert len(living.asked("messages")) == asked + MAX_PAGES


async def test_never_pushed_events_are_found(living: Living) -> None:
    """A killed homeserver loses its queue and continues with newer events."""
    living.rooms.room(ROOM, GHOST)
    for n in range(2 * PAGE):
        living.rooms.happens(ROOM, ALICE, MESSAGE, {"body": f"{n}"})
    await living.tell()
    sent = says(living, GHOST, KEY)
    living.rooms.untold.clear()
    for n in range(PAGE // 2):
        living.rooms.happens(ROOM, ALICE, MESSAGE, {"body": f"{n}"})
    await living.tell()
    assert await before_of(living).find(GHOST, ROOM, KEY) == sent
    # The second page is fully pushed.
    assert len(living.asked("messages")) == 2


async def test_old_events_are_not_scanned(living: Living) -> None:
    """They are not repeated any more, and their ids are pruned."""
    living.rooms.room(ROOM, GHOST)
    for n in range(3 * PAGE):
        living.rooms.happens(ROOM, ALICE, MESSAGE, {"body": f"{n}"})
    living.rooms.now += RETENTION_MS
    assert await before_of(living).find(GHOST, ROOM, KEY) is None
    assert len(living.asked("messages")) == 1


async def test_unreadable_room(living: Living) -> None:
    """The send itself raises the refusal; the scan is repeated later."""
    living.rooms.room(ROOM)
    before = before_of(living)
    assert await before.find(GHOST, ROOM, KEY) is None
    living.rooms.moves(ROOM, GHOST, "join")
    sent = says(living, GHOST, KEY)
    assert await before.find(GHOST, ROOM, KEY) == sent


async def test_invalid_timeline_is_tolerated(living: Living) -> None:
    """No field has to be valid."""
    living.rooms.room(ROOM, GHOST)
    timeline_pages = iter(
        [{"chunk": [5, {}, {"event_id": 5}, {"event_id": "$x", "content": []}], "end": 5}, {"chunk": {}}]
    )
    before = before_of(living)
    living.rooms._messages = lambda room_id, query: next(timeline_pages)  # type: ignore[method-assign]
    for _ in range(2):
        assert await before.find(GHOST, ROOM, KEY) is None
        before.invalidate(GHOST, ROOM)
