"""How late the event loop runs: what a person notices first when a node is overloaded."""

import asyncio
from collections.abc import Callable

INTERVAL = 0.5


async def measure_event_loop_lag(observe: Callable[[float], None]) -> None:
    """Until cancelled: ask to be woken, and report how much later it happened."""
    loop = asyncio.get_running_loop()
    while True:
        asked = loop.time() + INTERVAL
        await asyncio.sleep(INTERVAL)
        observe(max(0.0, loop.time() - asked))
