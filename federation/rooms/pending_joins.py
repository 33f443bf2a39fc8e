"""Rooms that this server is about to come into.

From the moment at which another server has taken in our join it sends us what happens in the room, and we do
not have the room yet. Nobody would send that again: so it waits until we have.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from typing import Final

PATIENCE: Final = 20.0
"""Seconds. Whoever sends does not wait for ever, and sends it again."""


class Arrivals:
    def __init__(self, *, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._expected: dict[str, list[asyncio.Event]] = {}

    @contextlib.contextmanager
    def expected(self, room_id: str) -> Iterator[None]:
        """The room is on its way for as long as this lasts, however that ends."""
        arrived = asyncio.Event()
        self._expected.setdefault(room_id, []).append(arrived)
        try:
            yield
        finally:
            arrived.set()
            self._expected[room_id].remove(arrived)
            if not self._expected[room_id]:
                del self._expected[room_id]

    async def settled(self, room_ids: Iterable[str]) -> None:
        """None of these is on its way any more, or that takes too long."""
        waited = [arrived for room_id in room_ids for arrived in self._expected.get(room_id, ())]
        if not waited:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                for arrived in waited:
                    await arrived.wait()
