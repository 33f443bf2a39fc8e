"""The process of the Agents and Computers.

`python -m bench._offices.load_generator SETTINGS`: reports that it is ready when all of them have joined
their offices, then answers each line of JSON with one line.
"""

import asyncio
import itertools
import json
import sys
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import uvloop

from bench._harness.lifeline import lines_from_parent, tell_parent
from bench._offices.office import Office
from bench._offices.sides import Settings, settings_of

TIMEOUT = 60.0
"""Seconds for the last answers."""
AT_ONCE = 8


async def call(offices: Sequence[Office], seconds: float, at_once: int) -> dict[str, Any]:
    """Keep this many calls open, in these offices."""
    durations: list[float] = []

    async def keep_calling(office: Office) -> None:
        while perf_counter() < began + seconds:
            durations.append(await office.call())

    began = perf_counter()
    async with asyncio.timeout(seconds + TIMEOUT), asyncio.TaskGroup() as group:
        for office in itertools.islice(itertools.cycle(offices), at_once):
            group.create_task(keep_calling(office))
    return {"durations": durations, "seconds": perf_counter() - began}


async def settled(settings: Settings) -> dict[str, list[Office]]:
    """Connect all of them to their offices."""
    offices = {name: [Office(place) for place in places] for name, places in settings.places.items()}
    coming = asyncio.Semaphore(AT_ONCE)

    async def settle(office: Office) -> None:
        async with coming:
            await office.settle()

    async with asyncio.TaskGroup() as group:
        for office in itertools.chain.from_iterable(offices.values()):
            group.create_task(settle(office))
    return offices


async def run(settings: Settings) -> None:
    """Run until the benchmark ends."""
    offices = await settled(settings)
    try:
        tell_parent(ready=True)
        async for line in lines_from_parent():
            command = json.loads(line)
            asked = offices[command.pop("of")][: command.pop("offices")]
            tell_parent(**await call(asked, **command))
    finally:
        for office in itertools.chain.from_iterable(offices.values()):
            office.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(settings_of(json.loads(sys.argv[1]))))
