"""Whoever asks for what is already being asked for waits for the same answer."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    def __init__(self) -> None:
        self._under_way: dict[K, asyncio.Task[V]] = {}

    async def run(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        """The answer. When somebody who waits is cancelled, the others still get it."""
        task = self._under_way.get(key)
        if task is None:
            task = asyncio.create_task(_awaited(ask))
            self._under_way[key] = task
            task.add_done_callback(lambda done: self._landed(key, done))
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Give up what is under way."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _landed(self, key: K, done: asyncio.Task[V]) -> None:
        if self._under_way.get(key) is done:
            del self._under_way[key]
        # When all who waited were cancelled, nobody is left to look at what went wrong.
        if not done.cancelled():
            done.exception()


async def _awaited(ask: Callable[[], Awaitable[V]]) -> V:
    return await ask()
