"""Work in a thread that is waited for."""

import asyncio
import threading

import pytest

from federation.service.uninterrupted import uninterrupted


async def test_the_result_and_the_failure_are_those_of_the_work() -> None:
    """As if it were called."""
    assert await uninterrupted(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await uninterrupted(divmod, 7, 0)


@pytest.mark.parametrize("fails", [False, True])
async def test_whoever_is_cancelled_still_waits(fails: bool) -> None:
    """However often; what came of the work is nobody's then."""
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait()
        ended.set()
        if fails:
            raise ValueError("nobody looks at this")

    waiting = asyncio.create_task(uninterrupted(work))
    await asyncio.to_thread(begun.wait)
    for _ in range(2):
        waiting.cancel()
        await asyncio.sleep(0)
    assert not waiting.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()
