"""The messages of tasks in the database."""

from dataclasses import replace

from bridge.people.message import StatusReaction, TaskMessages
from bridge.people.service.task_threads import TaskMessagesStore, messages_of, row_of
from bridge.tasks.request import TaskKey
from storage.database import Database
from tests.support.agents import address

SHOWN = TaskMessages(
    task=7,
    key=TaskKey("here", "people-1"),
    agent=address("worker@here"),
    room_id="!room",
    root="$root",
    request="$root",
    asked_by="@alice:there",
    is_threaded=True,
    made_at=5,
)


def test_a_row_is_converted_back() -> None:
    """Nothing is lost on the way."""
    full = replace(
        SHOWN,
        reaction=StatusReaction.DONE,
        reaction_event="$s",
        progress="$p",
        answer="$a",
        withdrawn_by="$w",
        asked_by=None,
    )
    for one in (SHOWN, full):
        assert messages_of(row_of(one)) == one


async def test_messages_are_stored_and_found(database: Database) -> None:
    """By the task and by each of its events."""
    tasks = TaskMessagesStore(database)
    assert await tasks.add(SHOWN) == SHOWN
    assert await tasks.add(replace(SHOWN, root="$other")) == SHOWN
    await tasks.set_reaction(7, StatusReaction.WAITING, "$s")
    await tasks.set_progress(7, "$p")
    await tasks.set_answer(7, "$a")
    known = replace(SHOWN, reaction=StatusReaction.WAITING, reaction_event="$s", progress="$p", answer="$a")
    assert await tasks.fetch(7) == known
    assert await tasks.fetch(8) is None
    assert await tasks.find("!room", "$a") == [known]
    assert await tasks.withdraw(7, "$w")
    assert not await tasks.withdraw(7, "$x")
    await tasks.set_reaction(7, None, None)
    found = await tasks.fetch(7)
    assert found is not None
    assert (found.reaction, found.withdrawn_by) == (None, "$w")
    assert await tasks.prune(6, 10) == 1
