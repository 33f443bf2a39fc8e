"""Rows that are read off runs whose figures are known here."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bench._offices.calling import FIFTY, LONE, ONE, cpu, latency, per_second
from bench._offices.sides import NODE, REFERENCE
from bench._offices.stage import POSTGRES, Stage


class Scripted:
    """In place of a stage: every run comes to the same."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    async def ask(self, side: str, load: str, **how: Any) -> dict[str, Any]:
        self.asked.append({"side": side, "load": load, **how})
        used = {NODE: 0.03, REFERENCE: 0.06, POSTGRES: 0.0}
        return {"durations": [0.004, 0.006, 0.02], "seconds": how["seconds"], "cpu": used}


@asynccontextmanager
async def scripted() -> AsyncIterator[tuple[Any, Scripted]]:
    script = Scripted()
    stage = Stage.__new__(Stage)
    Stage.__init__(stage, None, None, {})  # type: ignore[arg-type]
    stage.ask = script.ask  # type: ignore[method-assign]
    yield stage, script


async def test_the_figures_of_a_load_are_read_off_one_run() -> None:
    """Of each side and each load apart."""
    async with scripted() as (stage, script):
        assert (await latency(stage, 1.0, side=NODE, load=ONE, percent=50)).value == pytest.approx(6.0)
        assert (await latency(stage, 1.0, side=NODE, load=ONE, percent=95)).value == pytest.approx(18.6)
        assert (await per_second(stage, 1.0, side=NODE, load=ONE)).value == 3.0
        assert script.asked == [{"side": NODE, "load": "one", "offices": 1, "at_once": 32, "seconds": 1.0}]
        await per_second(stage, 1.0, side=REFERENCE, load=FIFTY)
        assert script.asked[1:] == [{"side": REFERENCE, "load": "fifty", "offices": 50, "at_once": 64, "seconds": 1.0}]


async def test_the_cpu_is_that_of_a_call() -> None:
    """Of the side's own process, and of our Postgres; a tick of the kernel's at least."""
    async with scripted() as (stage, _):
        assert (await cpu(stage, 1.0, side=NODE, load=LONE)).value == pytest.approx(10.0)
        assert (await cpu(stage, 1.0, side=REFERENCE, load=LONE)).value == pytest.approx(20.0)
        assert (await cpu(stage, 1.0, side=NODE, load=LONE, of=POSTGRES)).value > 0
