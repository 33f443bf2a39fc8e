"""Rooms that this server is joining through another server.

Other servers send this server the room's events as soon as the resident server has accepted the join, while
this server does not have the room yet. They would not send those events again, so the events wait until the
join has finished.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from typing import Final

TIMEOUT: Final = 20.0
"""Seconds for which events wait for a join. After that the sending server gives up waiting and retries."""


class PendingJoins:
    """The rooms that this server is joining."""

    def __init__(self, *, timeout: float = TIMEOUT) -> None:
        self._timeout = timeout
        self._pending: dict[str, list[asyncio.Event]] = {}

    @contextlib.contextmanager
    def joining(self, room_id: str) -> Iterator[None]:
        """Mark the room as being joined until the context ends, whether the join succeeds or not."""
        finished = asyncio.Event()
        self._pending.setdefault(room_id, []).append(finished)
        try:
            yield
        finally:
            finished.set()
            self._pending[room_id].remove(finished)
            if not self._pending[room_id]:
                del self._pending[room_id]

    async def wait_for(self, room_ids: Iterable[str]) -> None:
        """Return when none of the rooms is being joined any more, or after the timeout."""
        pending = [finished for room_id in room_ids for finished in self._pending.get(room_id, ())]
        if not pending:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timeout):
                for finished in pending:
                    await finished.wait()
