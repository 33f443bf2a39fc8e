"""`/sync`: waiting for events of others."""

import asyncio
import json
import secrets
from collections.abc import Callable
from typing import Any

from tests.support.matrix_client.homeserver import Homeserver, Json
from tests.support.matrix_client.seen import Seen
from tests.support.matrix_client.session import Session
from tests.support.matrix_client.waiting import TIMEOUT, T, Waiting


class Syncing(Session, Waiting):
    def __init__(self, homeserver: Homeserver, user_id: str, access_token: str, device_id: str | None) -> None:
        super().__init__(homeserver, user_id, access_token, device_id)
        self.seen = Seen()
        self.since: str | None = None
        self._syncing = asyncio.Lock()

    async def sync_once(self, *, since: str | None = None, timeout_ms: int = 0, **query: Any) -> Json:
        """Return one raw response, without changing `seen` and `since`."""
        # Synapse keeps the first answer to a filter for two minutes, hence a filter that nobody ever had.
        wanted = {"room": {"timeline": {"limit": 1000}, "not_rooms": [f"!{secrets.token_hex(8)}:nowhere"]}}
        query = {"filter": json.dumps(wanted), **query}
        return await self.call("GET", "v3/sync", query={"since": since, "timeout": timeout_ms, **query})

    async def sync(self, *, timeout_ms: int = 0) -> Seen:
        """Return what is new since the last sync; with a timeout, wait that long for something new."""
        async with self._syncing:
            return await self._sync(timeout_ms)

    async def _sync(self, timeout_ms: int) -> Seen:
        answer = await self.sync_once(since=self.since, timeout_ms=timeout_ms)
        self.since = answer["next_batch"]
        self.seen.add(answer)
        return self.seen

    async def wait_until(self, condition: Callable[[Seen], T], *, deadline: float = TIMEOUT) -> T:
        """Sync until the condition gives something true of all that was ever seen; that something.

        Several tasks may wait at the same time.
        """
        try:
            async with asyncio.timeout(deadline):
                while True:
                    async with self._syncing:
                        if found := condition(self.seen):
                            return found
                        # The first sync tells the present, all others wait for news.
                        await self._sync(0 if self.since is None else 30_000)
        except TimeoutError:
            raise AssertionError(f"{self.user_id} did not see it in {deadline} s; saw {self._summary()}") from None

    def _summary(self) -> str:
        last = [
            f"{event['type']} {event['event_id']} {event['content'].get('body', '')}".strip()
            for event in self.seen.timeline[-10:]
        ]
        return f"{len(self.seen.timeline)} events, {len(self.seen.joined)} rooms; the last: {last}"
