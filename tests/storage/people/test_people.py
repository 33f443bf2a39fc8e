"""Messages of tasks, and notices that are sent once."""

from storage.database import Database
from storage.people import people
from storage.people.people import TaskMessagesRow

ASKED = TaskMessagesRow(
    task=7,
    requester_node="here",
    request_id="people-1",
    agent="worker@here",
    room_id="!room",
    root="$root",
    request="$asked",
    asked_by="@alice:there",
    is_threaded=True,
    reaction=None,
    reaction_event=None,
    progress=None,
    answer=None,
    withdrawn_by=None,
    made_at=5,
)


async def insert(database: Database, *rows: TaskMessagesRow) -> None:
    async with database.transaction() as connection:
        for row in rows:
            await people.insert_task_messages(connection, row)


async def found(database: Database, event_id: str, room_id: str = "!room", limit: int = 10) -> list[int]:
    async with database.transaction() as connection:
        return [row.task for row in await people.find_task_messages(connection, room_id, event_id, limit)]


async def test_the_messages_of_a_task_are_inserted_once(database: Database) -> None:
    """A second insert, after a kill, changes nothing."""
    await insert(database, ASKED, ASKED._replace(root="$other"))
    async with database.transaction() as connection:
        assert await people.fetch_task_messages(connection, 7) == ASKED
        assert await people.fetch_task_messages(connection, 8) is None


async def test_inserting_again_returns_the_stored_messages(database: Database) -> None:
    async with database.transaction() as connection:
        assert await people.insert_or_fetch_task_messages(connection, ASKED) == ASKED
        assert await people.insert_or_fetch_task_messages(connection, ASKED._replace(root="$other")) == ASKED


async def test_tasks_are_found_by_their_messages(database: Database) -> None:
    """By each kind of message, the newest task first, and only in its own room."""
    await insert(database, ASKED, ASKED._replace(task=8, request="$further"))
    async with database.transaction() as connection:
        await people.set_progress(connection, 8, "$progress")
        await people.set_answer(connection, 8, "$answer")
        await people.set_reaction(connection, 8, "done", "$reaction")
        row = await people.fetch_task_messages(connection, 8)
    assert row is not None
    assert row[-7:] == (True, "done", "$reaction", "$progress", "$answer", None, 5)
    assert await found(database, "$root") == [8, 7]
    assert await found(database, "$root", limit=1) == [8]
    assert await found(database, "$asked") == [7]
    for event_id in ("$further", "$progress", "$answer"):
        assert await found(database, event_id) == [8]
    assert await found(database, "$root", "!elsewhere") == []
    assert await found(database, "$reaction") == []


async def test_a_request_is_withdrawn_by_one_event(database: Database) -> None:
    """The same event, read again after a kill, still is that event; a later one is not."""
    await insert(database, ASKED)
    async with database.transaction() as connection:
        assert await people.set_withdrawn(connection, 7, "$edit") == "$edit"
        assert await people.set_withdrawn(connection, 7, "$edit") == "$edit"
        assert await people.set_withdrawn(connection, 7, "$later") == "$edit"
        assert await people.set_withdrawn(connection, 9, "$edit") is None


async def test_the_last_cancelling_event_is_stored(database: Database) -> None:
    """Nothing is known of a deleted task."""
    await insert(database, ASKED)
    async with database.transaction() as connection:
        assert not await people.is_cancelled_by(connection, 7, "$first")
        for event_id in ("$first", "$second"):
            await people.set_cancelled(connection, 7, event_id)
            assert await people.is_cancelled_by(connection, 7, event_id)
        assert not await people.is_cancelled_by(connection, 7, "$first")
        await people.set_cancelled(connection, 9, "$first")
        assert not await people.is_cancelled_by(connection, 9, "$first")


async def test_old_rows_are_pruned(database: Database) -> None:
    """The oldest first, in batches."""
    await insert(database, *(ASKED._replace(task=number, made_at=number) for number in range(5)))
    async with database.transaction() as connection:
        assert await people.prune_task_messages(connection, 4, 3) == 3
        assert await people.prune_task_messages(connection, 4, 3) == 1
        assert await people.prune_task_messages(connection, 4, 3) == 0
    assert await found(database, "$root") == [4]


async def test_a_notice_is_sent_once_to_a_room(database: Database) -> None:
    """Other rooms are not affected."""
    async with database.transaction() as connection:
        assert not await people.is_notice_sent(connection, "!room", "it is encrypted")
        for _ in range(2):
            await people.insert_sent_notice(connection, "!room", "it is encrypted")
        assert await people.is_notice_sent(connection, "!room", "it is encrypted")
        assert not await people.is_notice_sent(connection, "!other", "it is encrypted")
