"""Rows that are read off runs of the pair, whose figures are known here."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bench._cis.asking import MANY, ONE, PROCESSES, TEN, cpu, first, latency, per_second, wanted
from bench._cis.measured_node import MeasuredNode
from bench._cis.pair import Pair
from bench._harness.child import child
from bench._harness.database import Database
from tests.bench._federation.scripted import ANSWER

RUN = "{'durations': [0.004, 0.006, 0.02], 'first': [0.1] * (at_once > 1), 'seconds': seconds}"


@asynccontextmanager
async def scripted() -> AsyncIterator[Pair]:
    """Nodes of which the asking one always says the same."""
    behind = Database("", "18", "tmpfs", os.getpid())
    async with child("the script", sys.executable, "-c", ANSWER, RUN) as process:
        yield Pair(MeasuredNode("localhost:1", process, behind), MeasuredNode("localhost:2", process, behind))


async def test_percentiles_are_read_off_one_run() -> None:
    """In milliseconds, and of each load apart."""
    async with scripted() as pair:
        assert (await latency(pair, 0.1, load=ONE, percent=50)).value == pytest.approx(6.0)
        assert (await latency(pair, 0.1, load=ONE, percent=95)).value == pytest.approx(18.6)
        assert (await latency(pair, 0.1, load=TEN, percent=50)).operations == 3
        assert len(pair.runs) == 2


async def test_what_is_sustained_takes_longer() -> None:
    """Twice as long as a sample of the other loads."""
    async with scripted() as pair:
        rated = await per_second(pair, 0.5, load=MANY)
        assert (rated.operations, rated.seconds, rated.value) == (3, 1.0, 3.0)


async def test_the_cpu_of_each_process_is_that_of_a_task() -> None:
    """A tick of the kernel's at least."""
    async with scripted() as pair:
        for of in PROCESSES:
            used = await cpu(pair, 0.1, load=ONE, of=of)
            assert used.value > 0
            assert used.operations == 3


async def test_the_first_request_is_read_off_the_first_run() -> None:
    """Afterwards the agent is there."""
    async with scripted() as pair:
        assert (await first(pair, 0.1)).value == pytest.approx(100.0)
        assert (await first(pair, 0.1)).value == pytest.approx(100.0)


async def test_what_is_wanted_is_not_measured() -> None:
    """It is the same every time."""
    async with scripted() as pair:
        assert wanted(pair, 1.0, ms=10.0).value == 10.0
