"""Tasks as people see them, in the database."""

from dataclasses import replace

from bridge.people.message import Shown, Sign
from bridge.people.service.task_threads import ShownTasks, row_of, shown_of
from bridge.tasks.request import TaskKey
from storage.database import Database
from tests.support.agents import address

SHOWN = Shown(
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


def test_there_and_back() -> None:
    """Nothing is lost on the way."""
    full = replace(
        SHOWN, sign=Sign.DONE, sign_event="$s", progress="$p", answer="$a", withdrawn_by="$w", asked_by=None
    )
    for one in (SHOWN, full):
        assert shown_of(row_of(one)) == one


async def test_they_are_kept_and_found(database: Database) -> None:
    """By the task, and by each of its messages."""
    tasks = ShownTasks(database)
    assert await tasks.add(SHOWN) == SHOWN
    assert await tasks.add(replace(SHOWN, root="$other")) == SHOWN
    await tasks.set_sign(7, Sign.WAITING, "$s")
    await tasks.set_progress(7, "$p")
    await tasks.set_answer(7, "$a")
    known = replace(SHOWN, sign=Sign.WAITING, sign_event="$s", progress="$p", answer="$a")
    assert await tasks.fetch(7) == known
    assert await tasks.fetch(8) is None
    assert await tasks.find("!room", "$a") == [known]
    assert await tasks.withdraw(7, "$w")
    assert not await tasks.withdraw(7, "$x")
    await tasks.set_sign(7, None, None)
    found = await tasks.fetch(7)
    assert found is not None
    assert (found.sign, found.withdrawn_by) == (None, "$w")
    assert await tasks.prune(6, 10) == 1
