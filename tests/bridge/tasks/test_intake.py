"""Accepting task requests."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import asyncpg
import pytest

from bridge.agents.updates import Unregistration
from bridge.tasks.errors import ErrorCode
from bridge.tasks.limits import TaskLimits
from bridge.tasks.queue_settings import AgentSettings
from bridge.tasks.request import TaskKey
from bridge.tasks.task import State
from federation.peers.limits import Rate
from storage.database import Database
from storage.rooms import stream as consumers
from tests.support.agents import NOW, Clock, address, registered
from tests.support.tasks import Process, RecordingDelivery, process, request


@pytest.fixture
async def one(database: Database) -> AsyncIterator[Process]:
    async with process(database) as one:
        await one.routes.update([registered("worker@here"), registered("worker@kitchen")])
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
async def test_the_route_decides_the_first_step(one: Process, to: str, state: State, elsewhere: bool) -> None:
    """A task without a route is stored too, so that a repeated request gets the same answer."""
    submitted = await one.tasks.submit(request(to=to))
    assert submitted.task is not None
    assert (submitted.task.state, submitted.task.elsewhere) == (state, elsewhere)
    again = await one.tasks.submit(request(to=to))
    assert again.task is not None
    assert (again.is_new, again.task.state) == (False, state)


@pytest.mark.parametrize(("asked", "given"), [(None, 300_000), (1_000, 1_000), (10**12, 3_600_000), (1, 1)])
async def test_the_deadline_counts_from_receipt(one: Process, asked: int | None, given: int) -> None:
    """By this node's clock, capped by the configuration."""
    submitted = await one.tasks.submit(request(timeout_ms=asked))
    assert submitted.task is not None
    assert submitted.task.deadline == NOW + given


async def test_a_refusal_is_not_stored(database: Database) -> None:
    """A request that came too fast may be sent again under the same id."""
    limits = TaskLimits(node_rate=Rate(1, 1))
    now = [50.0]
    async with process(database, Clock(), limits=limits, monotonic=lambda: now[0]) as one:
        await one.routes.update([registered("worker@kitchen")])
        assert (await one.tasks.submit(request("a", "worker@kitchen"))).is_new
        refused = await one.tasks.submit(request("b", "worker@kitchen"))
        assert refused.refusal is not None
        assert refused.refusal.code is ErrorCode.AGENT_BUSY
        assert await one.tasks.task(TaskKey("living", "b")) is None
        now[0] += 1
        assert (await one.tasks.submit(request("b", "worker@kitchen"))).is_new


async def test_an_agent_that_goes_offline_meanwhile_is_not_found(one: Process) -> None:
    """Between the routing and the decision about its queue."""
    routes = one.routes
    route = routes.route(address("worker@here"))
    await routes.update([Unregistration(address("worker@here"), "shutdown", NOW + 1)])
    routes.route = lambda target: route  # type: ignore[method-assign]
    submitted = await one.tasks.submit(request())
    assert submitted.task is not None
    assert submitted.task.answer is not None
    assert submitted.task.answer.error_code is ErrorCode.AGENT_NOT_FOUND


async def test_the_id_of_a_pruned_request_is_new(one: Process) -> None:
    """Its answer was pruned, so the request runs again."""
    await one.tasks.submit(request(to="worker@kitchen"))
    async with one.database.transaction() as connection:
        await connection.execute("DELETE FROM tasks")
    assert (await one.tasks.submit(request(to="worker@kitchen"))).is_new


# ---- requests from a stream --------------------------------------------------------------------------


async def reader(database: Database) -> int:
    async with database.transaction() as connection:
        return await consumers.begin_term(connection, "reader", 0)


async def position(database: Database) -> int:
    async with database.transaction() as connection:
        return (await consumers.list_cursors(connection))["reader"]


@pytest.mark.parametrize(
    ("to", "request_id", "state", "is_new"),
    [
        ("other@here", "second", State.ACCEPTED, True),
        ("worker@here", "second", State.QUEUED, True),
        ("worker@here", "first", State.ACCEPTED, False),
        ("worker@kitchen", "second", State.ACCEPTED, True),
        ("nobody@here", "second", State.FAILED, True),
    ],
)
async def test_a_task_is_stored_with_the_position_of_its_reader(
    one: Process, database: Database, to: str, request_id: str, state: State, is_new: bool
) -> None:
    """Whatever the outcome: the agent has room, is busy or is offline, or the request is repeated."""
    term = await reader(database)
    await one.routes.update([registered("other@here")])
    one.settings["worker"] = AgentSettings(queue_length=1)
    await one.tasks.submit(request("first"))
    submitted = await one.tasks.submit(request(request_id, to), ("reader", term, 7))
    assert submitted.task is not None
    assert (submitted.is_new, submitted.task.state) == (is_new, state)
    assert submitted.task == await one.task(request_id)
    assert await position(database) == 7


async def test_the_statement_detects_a_busy_agent(one: Process) -> None:
    """The error names the agent's current task."""
    await one.tasks.submit(request("a"))
    submitted = await one.tasks.submit(request("b"))
    assert submitted.task is not None
    assert submitted.task.answer is not None
    assert submitted.task.answer.error_code is ErrorCode.AGENT_BUSY
    assert submitted.task.answer.metadata["current_task"] == "task-a"


async def test_a_refusal_does_not_move_the_reader(database: Database) -> None:
    """The request is counted once against the limits."""
    limits = TaskLimits(agent_rate=Rate(1, 1))
    async with process(database, Clock(), limits=limits, monotonic=lambda: 50.0) as one:
        term = await reader(database)
        assert (await one.tasks.submit(request(to="nobody@here"), ("reader", term, 7))).task is not None
        refused = await one.tasks.submit(request("b"), ("reader", term, 8))
        assert refused.refusal is not None
        assert await position(database) == 7


async def test_a_replaced_reader_accepts_nothing(one: Process, database: Database) -> None:
    """The new reader reads the request again."""
    before = await reader(database)
    await reader(database)
    for _ in range(2):
        with pytest.raises(consumers.ReaderReplaced):
            await one.tasks.submit(request(), ("reader", before, 7))
        assert await one.tasks.task(TaskKey("living", "req-1")) is None
    await one.tasks.submit(request())
    with pytest.raises(consumers.ReaderReplaced):
        await one.tasks.submit(request(), ("reader", before, 7))
    assert (await one.task()).asked == 1


async def test_two_processes_together_keep_an_agents_limits(one: Process, database: Database) -> None:
    """Of many concurrent requests the others are queued, and refused once the queue is full."""
    term = await reader(database)
    async with process(database, one.clock) as other:
        one.settings["worker"] = other.settings["worker"] = AgentSettings(parallel=3, queue_length=4)
        await asyncio.gather(
            *((one, other)[number % 2].tasks.submit(request(f"r{number}"), ("reader", term, 7)) for number in range(12))
        )
    states = Counter(task.state for task in await one.tasks.search(agent=address("worker@here")))
    assert states == {State.ACCEPTED: 3, State.QUEUED: 4, State.FAILED: 5}


async def test_a_task_that_is_not_stored_is_not_delivered(database: Database) -> None:
    """Because its request id belongs to another task, because of a database error, or because of a kill."""
    delivery = RecordingDelivery()
    async with process(database, delivery=delivery) as one:
        await one.routes.update([registered("worker@kitchen")])
        await one.tasks.submit(request(to="worker@kitchen"))
        refused = await one.tasks.submit(request(to="worker@kitchen", task_id="another"))
        assert refused.refusal is not None
        async with database.connection() as connection:
            await connection.execute("ALTER TABLE tasks ADD CONSTRAINT closed CHECK (request_id <> 'req-2')")
        with pytest.raises(asyncpg.CheckViolationError):
            await one.tasks.submit(request("req-2", to="worker@kitchen"))
        await one.settled()
        assert (await delivery.delivered.get()).request.task_id == "task-req-1"
        assert delivery.delivered.empty()
        await one.kill()
    async with process(database, delivery=delivery) as other:
        await other.settled()
        assert delivery.delivered.empty()
