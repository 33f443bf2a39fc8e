"""Tasks are taken in."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from bridge.agent_news import Unregistered
from bridge.agent_queue import AgentSettings
from bridge.task import State, Task
from bridge.task_error import ErrorCode
from bridge.task_limits import TaskLimits
from bridge.task_ports import DeliveryOutcome
from bridge.task_request import TaskKey
from federation.peer_limits import Rate
from storage import consumers
from storage.database import Database
from tests.support.agents import NOW, Clock, address, registered
from tests.support.desk import Courier, Process, process, request


@pytest.fixture
async def one(database: Database) -> AsyncIterator[Process]:
    async with process(database) as one:
        await one.routes.take([registered("worker@here"), registered("worker@kitchen")])
        yield one


@pytest.mark.parametrize(
    ("to", "state", "elsewhere"),
    [
        ("worker@here", State.ACCEPTED, False),
        ("worker@kitchen", State.ACCEPTED, True),
        ("nobody@here", State.FAILED, False),
        ("nobody@nowhere", State.FAILED, False),
    ],
)
async def test_a_route_decides(one: Process, to: str, state: State, elsewhere: bool) -> None:
    """What cannot go anywhere is kept all the same: asked again, it gets the same answer."""
    submitted = await one.desk.submit(request(to=to))
    assert submitted.task is not None
    assert (submitted.task.state, submitted.task.elsewhere) == (state, elsewhere)
    again = await one.desk.submit(request(to=to))
    assert again.task is not None
    assert (again.is_new, again.task.state) == (False, state)


@pytest.mark.parametrize(("asked", "given"), [(None, 300_000), (1_000, 1_000), (10**12, 3_600_000), (1, 1)])
async def test_the_deadline_counts_from_receipt(one: Process, asked: int | None, given: int) -> None:
    """By this node's clock, capped by the configuration."""
    submitted = await one.desk.submit(request(timeout_ms=asked))
    assert submitted.task is not None
    assert submitted.task.deadline == NOW + given


async def test_a_refusal_is_not_kept(database: Database) -> None:
    """What was too fast may be asked again under the same id."""
    limits = TaskLimits(of_node=Rate(1, 1))
    now = [50.0]
    async with process(database, Clock(), limits=limits, monotonic=lambda: now[0]) as one:
        await one.routes.take([registered("worker@kitchen")])
        assert (await one.desk.submit(request("a", "worker@kitchen"))).is_new
        refused = await one.desk.submit(request("b", "worker@kitchen"))
        assert refused.refusal is not None
        assert refused.refusal.code is ErrorCode.AGENT_BUSY
        assert await one.desk.task(TaskKey("living", "b")) is None
        now[0] += 1
        assert (await one.desk.submit(request("b", "worker@kitchen"))).is_new


async def test_an_agent_that_goes_at_this_moment_is_not_found(one: Process) -> None:
    """Between the route and the look at its queue."""
    routes = one.routes
    route = routes.route(address("worker@here"))
    await routes.take([Unregistered(address("worker@here"), "shutdown", NOW + 1)])
    routes.route = lambda target: route  # type: ignore[method-assign]
    submitted = await one.desk.submit(request())
    assert submitted.task is not None
    assert submitted.task.answer is not None
    assert submitted.task.answer.error_code is ErrorCode.AGENT_NOT_FOUND


async def test_a_request_of_long_ago_is_another_one(one: Process) -> None:
    """Its answer was forgotten, so that it is run again."""
    await one.desk.submit(request(to="worker@kitchen"))
    async with one.database.transaction() as connection:
        await connection.execute("DELETE FROM tasks")
    assert (await one.desk.submit(request(to="worker@kitchen"))).is_new


# ---- what was read, by one statement -----------------------------------------------------------------


async def reader(database: Database) -> int:
    async with database.transaction() as connection:
        return await consumers.take_over(connection, "reader", 0)


async def position(database: Database) -> int:
    async with database.transaction() as connection:
        return (await consumers.list_cursors(connection))["reader"]


async def test_what_an_agent_accepts_is_kept_with_the_place_of_who_read_of_it(
    one: Process, database: Database
) -> None:
    """And is on its way."""
    term = await reader(database)
    submitted = await one.desk.take_in_read(request(), ("reader", term, 7))
    assert submitted is not None
    assert submitted.is_new
    assert submitted.task == await one.task()
    assert submitted.task.state is State.ACCEPTED
    assert await position(database) == 7
    assert (await one.courier.delivered.get()).key == TaskKey("living", "req-1")


@pytest.mark.parametrize(
    ("to", "changed"),
    [
        ("worker@here", {"request_id": "second"}),
        ("worker@here", {}),
        ("worker@kitchen", {}),
        ("nobody@here", {}),
    ],
)
async def test_what_is_not_that_simple_is_not_written(
    one: Process, database: Database, to: str, changed: dict[str, str]
) -> None:
    """An agent that is busy, a request that comes again, an agent that is not here: with a transaction it is
    taken in as ever, and the limits are not asked twice."""
    term = await reader(database)
    await one.desk.submit(request("req-1", "worker@here"))
    asked = request(changed.get("request_id", "req-1"), to)
    assert await one.desk.take_in_read(asked, ("reader", term, 7)) is None
    assert await position(database) == 0
    async with database.transaction() as connection:
        submitted = await one.desk.take_in(connection, asked, is_allowed=True)
    assert (submitted.task is None) != (submitted.refusal is None)


async def test_the_limits_are_asked_once_for_what_goes_the_longer_way(database: Database) -> None:
    """Else whoever asks busy agents could ask half as often."""
    limits = TaskLimits(of_agent=Rate(1, 1))
    async with process(database, Clock(), limits=limits, monotonic=lambda: 50.0) as one:
        term = await reader(database)
        assert await one.desk.take_in_read(request(to="nobody@here"), ("reader", term, 7)) is None
        async with database.transaction() as connection:
            submitted = await one.desk.take_in(connection, request(to="nobody@here"), is_allowed=True)
        assert submitted.task is not None
        refused = await one.desk.take_in_read(request("b"), ("reader", term, 8))
        assert refused is not None
        assert refused.refusal is not None
        assert await position(database) == 0


async def test_who_has_been_followed_by_another_reader_takes_nothing_in(
    one: Process, database: Database
) -> None:
    """That one reads of it again."""
    before = await reader(database)
    await reader(database)
    with pytest.raises(consumers.TakenOver):
        await one.desk.take_in_read(request(), ("reader", before, 7))
    assert await one.desk.task(TaskKey("living", "req-1")) is None


async def test_two_processes_give_an_agent_no_more_than_it_takes(one: Process, database: Database) -> None:
    """However many requests they read at once; the rest goes the longer way, and is told that it is busy."""
    term = await reader(database)
    async with process(database, one.clock) as other:
        one.settings["worker"] = other.settings["worker"] = AgentSettings(at_once=3)
        submitted = await asyncio.gather(
            *(
                (one, other)[number % 2].desk.take_in_read(request(f"r{number}"), ("reader", term, 7))
                for number in range(12)
            )
        )
    assert len([each for each in submitted if each is not None]) == 3
    assert len(await one.desk.search(agent=address("worker@here"))) == 3


async def test_what_was_foreseen_is_taken_in_as_if_it_had_not_been(one: Process, database: Database) -> None:
    """It is foreseen for the very request that is read, and its time counts from then."""
    term = await reader(database)
    one.settings["worker"] = AgentSettings(None)
    for number in range(4):
        asked = request(f"r{number}", timeout_ms=1_000)
        if number:
            one.desk.foresee_request(asked if number < 3 else request(f"r{number}", timeout_ms=1_000))
        foreseen_at = one.clock()
        if number == 2:
            one.clock.advance(1_001)  # Postgres has taken its time
        elif number == 1:
            one.clock.advance(1_000)
        submitted = await one.desk.take_in_read(asked, ("reader", term, number + 1))
        assert submitted is not None
        assert submitted.task is not None
        assert submitted.task.changed(request=asked) == (await one.task(f"r{number}")).changed(request=asked)
        at = foreseen_at if number == 1 else one.clock()
        assert (submitted.task.received_at, submitted.task.deadline) == (at, at + 1_000)
        assert (submitted.is_new, submitted.task.state) == (True, State.ACCEPTED)
        assert (await one.courier.delivered.get()).key == asked.key
        assert await position(database) == number + 1


async def test_what_was_foreseen_and_is_not_read_leaves_no_trace(database: Database) -> None:
    """It counts against no limit, and nobody is given it; what cannot be written is not even made."""
    limits = TaskLimits(of_agent=Rate(1, 1))
    async with process(database, Clock(), limits=limits, monotonic=lambda: 50.0) as one:
        await one.routes.take([registered("worker@here")])
        term = await reader(database)
        for number in range(5):
            one.desk.foresee_request(request(f"r{number}"))
        made = one.desk._intake._foreseen
        assert made is not None
        deep: object = 1
        for _ in range(2_000):
            deep = [deep]
        for asked in (request(metadata={"deep": deep}), request(prompt="\ud800"), request(to="nobody@here")):
            one.desk.foresee_request(asked)
        assert one.desk._intake._foreseen is made
        assert await one.desk.search() == []
        assert one.desk._timers.live_of_all() == 0
        assert await one.desk.take_in_read(request("read"), ("reader", term, 1)) is not None
        assert [task.key.request_id for task in await one.desk.search()] == ["read"]
        await one.settled()
        assert (await one.courier.delivered.get()).key.request_id == "read"
        assert one.courier.delivered.empty()


async def test_of_what_was_foreseen_all_that_changes_is_asked_again(one: Process, database: Database) -> None:
    """The agent is busy when the request comes, or gone."""
    term = await reader(database)
    late = request("late")
    one.desk.foresee_request(late)
    await one.desk.submit(request())
    assert await one.desk.take_in_read(late, ("reader", term, 1)) is None
    one.desk.foresee_request(late)
    await one.routes.take([Unregistered(address("worker@here"), "shutdown", NOW + 1)])
    assert await one.desk.take_in_read(late, ("reader", term, 1)) is None
    assert await position(database) == 0
    assert await one.desk.task(late.key) is None


# ---- made ready before it is stored ------------------------------------------------------------------


class Quick(Courier):
    """It makes ready what it has to say."""

    def __init__(self) -> None:
        super().__init__()
        self.made: asyncio.Queue[Task] = asyncio.Queue()
        self.order: list[str] = []

    def make_ready(self, task: Task) -> None:
        self.made.put_nowait(task)
        self.order.append("made ready")

    async def deliver(self, task: Task) -> DeliveryOutcome:
        self.order.append("brought")
        return await super().deliver(task)


async def test_a_task_is_made_ready_before_it_is_brought(database: Database) -> None:
    """As it will be, but for its number; and once."""
    courier = Quick()
    async with process(database, courier=courier) as one:
        await one.routes.take([registered("worker@kitchen")])
        await one.desk.submit(request(to="worker@kitchen"))
        made, delivered = await courier.made.get(), await courier.delivered.get()
        assert delivered.changed(id=0) == made
        assert delivered.request is made.request
        await one.settled()
        assert courier.order == ["made ready", "brought"]


async def test_what_is_made_ready_and_not_stored_is_brought_to_nobody(database: Database) -> None:
    """Its request id belongs to another task, or Postgres refuses it; after a kill nobody knows of it."""
    courier = Quick()
    async with process(database, courier=courier) as one:
        await one.routes.take([registered("worker@kitchen")])
        await one.desk.submit(request(to="worker@kitchen"))
        refused = await one.desk.submit(request(to="worker@kitchen", task_id="another"))
        assert refused.refusal is not None
        async with database.connection() as connection:
            await connection.execute("ALTER TABLE tasks ADD CONSTRAINT closed CHECK (request_id <> 'req-2')")
        with pytest.raises(asyncpg.CheckViolationError):
            await one.desk.submit(request("req-2", to="worker@kitchen"))
        made = [await courier.made.get() for _ in range(3)]
        assert [task.request.task_id for task in made] == ["task-req-1", "another", "task-req-2"]
        await one.settled()
        assert (await courier.delivered.get()).request.task_id == "task-req-1"
        assert courier.delivered.empty()
        await one.kill()
    async with process(database, courier=courier) as other:
        await other.settled()
        assert courier.delivered.empty()
