"""`/sync`: waiting for what others do."""

import asyncio
import json
import secrets
from collections.abc import Callable
from typing import Any, TypeVar

from tests.support.matrix_client.homeserver import Homeserver, Json
from tests.support.matrix_client.seen import Event, Seen
from tests.support.matrix_client.session import Session

T = TypeVar("T")

# Far above what anything needs: it only ends what would never come.
PATIENCE = 60.0


class Syncing(Session):
    def __init__(
        self, homeserver: Homeserver, user_id: str, access_token: str, device_id: str | None
    ) -> None:
        super().__init__(homeserver, user_id, access_token, device_id)
        self.seen = Seen()
        self.since: str | None = None
        self._syncing = asyncio.Lock()

    async def sync_once(self, *, since: str | None = None, timeout_ms: int = 0, **query: Any) -> Json:
        """One answer as it comes, which `seen` and `since` take no notice of."""
        # Synapse keeps the first answer to a filter for two minutes, hence a filter that nobody ever had.
        wanted = {"room": {"timeline": {"limit": 1000}, "not_rooms": [f"!{secrets.token_hex(8)}:nowhere"]}}
        query = {"filter": json.dumps(wanted), **query}
        return await self.call("GET", "v3/sync", query={"since": since, "timeout": timeout_ms, **query})

    async def sync(self, *, timeout_ms: int = 0) -> Seen:
        """What came since the last time; with a timeout, wait so long for anything to come."""
        async with self._syncing:
            return await self._sync(timeout_ms)

    async def _sync(self, timeout_ms: int) -> Seen:
        answer = await self.sync_once(since=self.since, timeout_ms=timeout_ms)
        self.since = answer["next_batch"]
        self.seen.add(answer)
        return self.seen

    async def wait_until(self, condition: Callable[[Seen], T], *, deadline: float = PATIENCE) -> T:
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
            raise AssertionError(
                f"{self.user_id} did not see it in {deadline} s; saw {self._summary()}"
            ) from None

    async def wait_for(
        self, predicate: Callable[[Event], Any], *, room_id: str | None = None, deadline: float = PATIENCE
    ) -> Event:
        """The first event of a timeline of which this is true, whether it came already or still has to."""
        start = 0

        def find(seen: Seen) -> Event | None:
            nonlocal start
            for event in seen.timeline[start:]:
                start += 1
                if room_id in (None, event["room_id"]) and predicate(event):
                    return event
            return None

        found = await self.wait_until(find, deadline=deadline)
        assert found is not None
        return found

    async def wait_for_event(self, event_id: str, *, deadline: float = PATIENCE) -> Event:
        return await self.wait_for(lambda event: event["event_id"] == event_id, deadline=deadline)

    async def wait_for_text(
        self, body: str, *, room_id: str | None = None, deadline: float = PATIENCE
    ) -> Event:
        """The message that says just this."""
        return await self.wait_for(
            lambda event: event["content"].get("body") == body, room_id=room_id, deadline=deadline
        )

    async def wait_for_invite(self, room_id: str, *, deadline: float = PATIENCE) -> list[Event]:
        """The stripped state that came with it."""
        return await self.wait_until(lambda seen: seen.invited.get(room_id, []), deadline=deadline)

    def _summary(self) -> str:
        last = [
            f"{event['type']} {event['event_id']} {event['content'].get('body', '')}".strip()
            for event in self.seen.timeline[-10:]
        ]
        return f"{len(self.seen.timeline)} events, {len(self.seen.joined)} rooms; the last: {last}"
