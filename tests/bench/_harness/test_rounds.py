import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest

from bench._harness.measurement import Measurement, rate
from bench._harness.plan import Plan
from bench._harness.progress import Lines
from bench._harness.rounds import measure
from bench._harness.row import Benchmark, Row, Section, Side

PLAN = Plan(rounds=3, seconds=0.4)


def recorded(log: list[Any], name: str) -> Callable[[str, float], Measurement]:
    def sample(subject: str, seconds: float) -> Measurement:
        log.append((name, subject, seconds))
        return rate(1, 1)

    return sample


def section(log: list[Any], name: str) -> Section[str]:
    @contextmanager
    def subject() -> Iterator[str]:
        log.append(f"open {name}")
        try:
            yield name
        finally:
            log.append(f"close {name}")

    compared = Row(name=name, what=name, ours=Side("A", recorded(log, "A")), other=Side("B", recorded(log, "B")))
    return Section(setup=subject, rows=[compared], remarks=lambda subject: [f"about {subject}"])


async def test_sides_take_turns_after_one_sample_that_nobody_keeps() -> None:
    """A B A B …, so that a noisy machine disturbs both alike."""
    log: list[Any] = []
    results, remarks = await measure(Benchmark(name="x", sections=[section(log, "s")]), ["s"], PLAN, Lines())
    assert log == [
        "open s",
        ("A", "s", 0.1),
        ("B", "s", 0.1),
        *[(side, "s", 0.4) for _ in range(3) for side in "AB"],
        "close s",
    ]
    assert [(len(result.ours), len(result.other)) for result in results] == [(3, 3)]
    assert remarks == ["about s"]


async def test_only_what_a_selected_row_needs_is_set_up() -> None:
    """No server is started for a row that nobody asked for."""
    log: list[Any] = []
    sections = [section(log, "first"), section(log, "second")]
    results, _ = await measure(Benchmark(name="x", sections=sections), ["second"], PLAN, Lines())
    assert [result.row.name for result in results] == ["second"]
    assert "open first" not in log


async def test_samples_and_setups_may_be_asynchronous() -> None:
    """Servers are; and a ceiling has one side."""

    @asynccontextmanager
    async def subject() -> AsyncIterator[int]:
        await asyncio.sleep(0)
        yield 7

    async def sample(subject: int, seconds: float) -> Measurement:
        await asyncio.sleep(0)
        return rate(subject, 1)

    ceiling = Section(setup=subject, rows=[Row(name="c", what="c", ours=Side("A", sample))])
    [result], _ = await measure(Benchmark(name="x", sections=[ceiling]), ["c"], PLAN, Lines())
    assert [each.value for each in result.ours] == [7, 7, 7]
    assert result.other == ()


async def test_what_was_set_up_is_ended_when_a_sample_fails() -> None:
    """Whatever happens, nothing is left running."""
    log: list[Any] = []
    failing = section(log, "s")

    def fail(subject: str, seconds: float) -> Measurement:
        raise RuntimeError("refused")

    failing = Section(setup=failing.setup, rows=[Row(name="s", what="s", ours=Side("A", fail))])
    with pytest.raises(RuntimeError, match="refused"):
        await measure(Benchmark(name="x", sections=[failing]), ["s"], PLAN, Lines())
    assert log == ["open s", "close s"]
