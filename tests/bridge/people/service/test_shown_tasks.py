"""Tasks as people see them, in the database."""

from dataclasses import replace

import pytest

from bridge.people.service.shown_tasks import BELIEVED, NOT_YET, Ended, ShownTasks, row_of, shown_of
from bridge.people.thread import Shown, Sign
from bridge.service.task_store import row_of as task_row_of
from bridge.task import Task, receive
from bridge.task_messages import Accept
from bridge.task_request import TaskKey
from storage import people
from storage.database import Database
from tests.support.agents import address
from tests.support.desk import request

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


async def test_those_that_were_shown_at_once(database: Database) -> None:
    """Many by one statement; what is known already stays, and is told."""
    tasks = ShownTasks(database)
    await tasks.add(SHOWN)
    one = Ended(7, SHOWN.key, SHOWN.agent, "!room", "$r7", Sign.DONE, "$a7", 6)
    other = replace(one, task=8, key=TaskKey("there", "b"), root="$r8", sign=Sign.FAILED, answer="-")
    assert await tasks.known([7, 8]) == {7}
    assert await tasks.add_ended([one, other]) == {8}
    assert await tasks.add_ended([]) == set()
    assert await tasks.known([7, 8]) == {7, 8}
    assert await tasks.fetch(7) == SHOWN
    assert await tasks.fetch(8) == replace(
        SHOWN,
        task=8,
        key=other.key,
        root="$r8",
        request="$r8",
        asked_by=None,
        made_at=6,
        sign=Sign.FAILED,
        answer="-",
    )


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def begun(tasks: ShownTasks, database: Database, at_once: int | None = 1) -> int | None:
    """With its task, as a person has asked for it."""
    task = receive(Task(request(), 5, 1_000), Accept(), 5).task
    shown = replace(SHOWN, task=NOT_YET, key=task.key, agent=task.request.to_address)
    async with database.statements() as connection:
        return await tasks.with_thread(shown)(connection, task_row_of(task, None), at_once)


async def changed_elsewhere(database: Database, task: int) -> None:
    """By another process."""
    async with database.transaction() as connection:
        await people.set_progress(connection, task, "$elsewhere")


async def test_one_that_has_just_been_begun_is_known(database: Database) -> None:
    """For a second, as this process has left it; what others made of it is seen then."""
    clock = Clock()
    tasks = ShownTasks(database, monotonic=clock)
    number = await begun(tasks, database)
    assert number is not None
    shown = await tasks.fetch(number)
    assert shown == await ShownTasks(database).fetch(number)
    assert shown is not None
    assert (shown.task, shown.root, shown.asked_by) == (number, "$root", "@alice:there")
    await changed_elsewhere(database, number)
    await tasks.set_sign(number, Sign.WAITING, "$s")
    await tasks.set_answer(number, "$a")
    clock.now += BELIEVED - 0.01
    known = replace(shown, sign=Sign.WAITING, sign_event="$s", answer="$a")
    assert await tasks.fetch(number) == known
    clock.now += 0.02
    assert await tasks.fetch(number) == replace(known, progress="$elsewhere")
    assert await begun(tasks, database) is None, "it was asked for before"


async def test_what_is_withdrawn_is_looked_at(database: Database) -> None:
    """Whatever was known of it, and whoever has withdrawn it."""
    tasks = ShownTasks(database)
    number = await begun(tasks, database)
    assert number is not None
    await changed_elsewhere(database, number)
    await tasks.withdraw(number, "$w")
    shown = await tasks.fetch(number)
    assert shown is not None
    assert (shown.withdrawn_by, shown.progress) == ("$w", "$elsewhere")


@pytest.mark.parametrize("at_once", [0, 1])
async def test_one_that_has_to_wait_is_not_begun(database: Database, at_once: int) -> None:
    """Neither the task nor its thread is there when its agent has no room for it."""
    tasks = ShownTasks(database)
    number = await begun(tasks, database, at_once)
    assert (number is None) == (at_once == 0)
    async with database.transaction() as connection:
        assert await connection.fetchval("SELECT count(*) FROM tasks") == at_once
        assert await connection.fetchval("SELECT count(*) FROM people_tasks") == at_once
