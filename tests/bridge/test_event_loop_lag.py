"""How late the event loop runs."""

import asyncio
import time

from bridge.run import INTERVAL, measure_event_loop_lag


async def test_a_blocked_loop_shows_as_lag() -> None:
    """What kept everybody waiting is what is reported."""
    loop = asyncio.get_running_loop()
    seen: asyncio.Future[float] = loop.create_future()

    def observe(lag: float) -> None:
        if not seen.done():
            seen.set_result(lag)

    measuring = asyncio.create_task(measure_event_loop_lag(observe))
    await asyncio.sleep(0)  # the measurement has asked to be woken
    time.sleep(INTERVAL + 0.2)
    lag = await seen
    measuring.cancel()
    assert lag >= 0.15
