"""Measures one operation by repeating it for a given time."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import repeat as times
from time import perf_counter

from bench._harness.measurement import Measurement, latency, rate

# A batch takes at least this share of a sample, so that reading the clock adds nothing to the fastest
# operation, and not much more, so that a sample of a slow one ends about when it should.
_SHARE_OF_A_BATCH = 1 / 20


def repeat(seconds: float, operation: Callable[[], object]) -> Measurement:
    """Call a plain function in growing batches; a `functools.partial` has less overhead than a lambda."""
    batch, operations, spent = 1, 0, 0.0
    while spent < seconds:
        began = perf_counter()
        for _ in times(None, batch):
            operation()
        elapsed = perf_counter() - began
        operations, spent = operations + batch, spent + elapsed
        if elapsed < seconds * _SHARE_OF_A_BATCH:
            batch *= 2
    return rate(operations, spent)


async def repeat_async(seconds: float, *operations: Callable[[], Awaitable[object]]) -> Measurement:
    """Keep every operation busy at the same time, each one again as soon as it is done.

    One operation per connection is the usual shape; the clock stops when the last has finished.
    """
    began = perf_counter()
    deadline = began + seconds

    async def keep_busy(operation: Callable[[], Awaitable[object]]) -> int:
        done = 0
        while done == 0 or perf_counter() < deadline:
            await operation()
            done += 1
        return done

    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(keep_busy(operation)) for operation in operations]
    return rate(sum(worker.result() for worker in workers), perf_counter() - began)


async def round_trips(seconds: float, operation: Callable[[], Awaitable[object]]) -> Measurement:
    """Measure the time of one operation, each started after the previous one has returned."""
    durations: list[float] = []
    deadline = perf_counter() + seconds
    while not durations or perf_counter() < deadline:
        began = perf_counter()
        await operation()
        durations.append(perf_counter() - began)
    return latency(durations)
