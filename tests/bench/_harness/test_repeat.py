import asyncio
from functools import partial
from time import sleep

import pytest

from bench._harness.repeat import repeat, repeat_async, round_trips


def test_every_call_is_counted() -> None:
    """However many the time allowed."""
    called: list[None] = []
    measured = repeat(0.01, partial(called.append, None))
    assert measured.operations == len(called) > 1
    assert measured.seconds >= 0.01


def test_an_operation_that_takes_longer_than_the_time_runs_once() -> None:
    """The time is what a sample aims at, not a limit."""
    called: list[None] = []

    def slow() -> None:
        called.append(None)
        sleep(0.002)

    assert repeat(0.001, slow).operations == len(called) == 1


def test_a_failing_operation_fails_the_sample() -> None:
    """A figure over operations that did not work would be a lie."""

    def fail() -> None:
        raise RuntimeError("refused")

    with pytest.raises(RuntimeError, match="refused"):
        repeat(0.01, fail)


async def test_operations_run_at_the_same_time() -> None:
    """Each one again as soon as it is done; all of them count together."""
    begun = asyncio.Event()
    ended: list[str] = []

    async def wait() -> None:
        await begun.wait()
        await asyncio.sleep(0)
        ended.append("wait")

    async def begin() -> None:
        begun.set()
        await asyncio.sleep(0)
        ended.append("begin")

    async with asyncio.timeout(10):
        measured = await repeat_async(0.005, wait, begin)
    assert measured.operations == len(ended)
    assert min(ended.count("wait"), ended.count("begin")) > 1


async def test_each_operation_runs_at_least_once() -> None:
    """Also when the first takes all of the time."""
    measured = await repeat_async(0.001, *[partial(asyncio.sleep, 0.005)] * 4)
    assert measured.operations == 4
    assert measured.seconds >= 0.005


async def test_one_failing_connection_fails_the_sample() -> None:
    """The others are cancelled with it."""

    async def fail() -> None:
        raise RuntimeError("hung up")

    with pytest.raises(ExceptionGroup) as failure:
        await repeat_async(10, fail, partial(asyncio.sleep, 60))
    assert failure.group_contains(RuntimeError, match="hung up")


async def test_a_round_trip_is_waited_for_before_the_next() -> None:
    """A latency under load would be another figure."""
    under_way = 0

    async def travel() -> None:
        nonlocal under_way
        under_way += 1
        assert under_way == 1
        await asyncio.sleep(0.001)
        under_way -= 1

    measured = await round_trips(0.01, travel)
    assert measured.operations > 1
    assert measured.value >= 1.0
