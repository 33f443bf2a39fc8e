"""One question at a time about one thing."""

import asyncio

import pytest

from federation.service.single_flight import SingleFlight


async def test_those_who_ask_meanwhile_get_the_same_answer() -> None:
    """And whoever asks after that asks anew."""
    flight: SingleFlight[str, int] = SingleFlight()
    release = asyncio.Event()
    asked = 0

    async def ask() -> int:
        nonlocal asked
        asked += 1
        await release.wait()
        return asked

    waiting = [asyncio.create_task(flight.run("a", ask)) for _ in range(5)]
    await asyncio.sleep(0)
    release.set()
    assert await asyncio.gather(*waiting) == [1] * 5
    assert await flight.run("a", ask) == 2
    assert await flight.run("b", ask) == 3


async def test_who_is_cancelled_takes_nobody_along() -> None:
    """The question belongs to all who wait."""
    flight: SingleFlight[str, str] = SingleFlight()
    asked, release = asyncio.Event(), asyncio.Event()

    async def ask() -> str:
        asked.set()
        await release.wait()
        return "answer"

    first = asyncio.create_task(flight.run("a", ask))
    await asked.wait()
    second = asyncio.create_task(flight.run("a", ask))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    release.set()
    assert await second == "answer"


async def test_a_failure_is_everybodys_and_is_not_kept() -> None:
    """Nor is it reported as forgotten when nobody is left to hear of it."""
    flight: SingleFlight[str, str] = SingleFlight()

    async def fail() -> str:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            await flight.run("a", fail)


async def test_closing_gives_up() -> None:
    """Nothing is left running."""
    flight: SingleFlight[str, None] = SingleFlight()
    asked = asyncio.Event()

    async def ask() -> None:
        asked.set()
        await asyncio.Event().wait()

    waiting = asyncio.create_task(flight.run("a", ask))
    await asked.wait()
    await flight.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
