"""Finds the event that a sender has already sent with a transaction key, so that it is not sent twice.

An application service cannot ask the homeserver what became of a request without a response, and a restarted
homeserver forgets transaction ids. But the homeserver pushes events to the intake, including this node's own,
with the key in their content; an event that is not pushed yet is at the end of the room's timeline. So is an
event that never will be pushed: a killed Synapse loses its queue for application services.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from cachetools import LRUCache

from appservice.homeserver.client import HomeserverClient
from appservice.intake.known_rooms import KnownRooms
from appservice.intake.received_event import TRANSACTION_KEY
from appservice.intake.state_fetcher import timeline_pages
from federation.matrix.errors import MatrixError
from storage.concurrency import SingleFlight
from storage.database import Database

MAX_KEYS: Final = 20_000
MAX_SENDERS_IN_ROOMS: Final = 20_000
SenderInRoom = tuple[str, str]
"""Sender and room id."""


class SentEventIndex:
    """Call `close` at the end."""

    def __init__(
        self, client: HomeserverClient, rooms: KnownRooms, database: Database, *, now_ms: Callable[[], int]
    ) -> None:
        self._client = client
        self._rooms = rooms
        self._database = database
        self._now_ms = now_ms
        self._known: LRUCache[tuple[str, str, str], str] = LRUCache(MAX_KEYS)
        # Senders and rooms for which this process has read all events that were sent and not pushed.
        self._scanned: LRUCache[SenderInRoom, bool] = LRUCache(MAX_SENDERS_IN_ROOMS)
        self._scanning: SingleFlight[SenderInRoom, None] = SingleFlight()

    async def close(self) -> None:
        await self._scanning.close()

    async def find(self, sender: str, room_id: str, key: str) -> str | None:
        """Return the event that the sender has sent with this key."""
        found = self._known.get((sender, room_id, key))
        if found is not None:
            return found
        if self._scanned.get((sender, room_id)) is None:
            await self._scanning.run((sender, room_id), partial(self._scan, sender, room_id))
            found = self._known.get((sender, room_id, key))
            if found is not None:
                return found
        # After the scan: events beyond the scan had been pushed by then.
        return await self._rooms.sent(sender, room_id, key)

    def sent(self, sender: str, room_id: str, key: str, event_id: str) -> None:
        self._known[sender, room_id, key] = event_id

    def invalidate(self, sender: str, room_id: str) -> None:
        """An event may have been sent; whether it was is unknown."""
        self._scanned.pop((sender, room_id), None)

    async def _scan(self, sender: str, room_id: str) -> None:
        """Read back to a page whose events are all pushed; every event before it is pushed too."""
        try:
            async for events, _ in timeline_pages(self._client, self._database, room_id, sender, self._now_ms()):
                self._record_keys(sender, room_id, events)
        except MatrixError:
            # A user who may not read the room may not send there either, and gets that error.
            return
        self._scanned[sender, room_id] = True

    def _record_keys(self, sender: str, room_id: str, events: Iterable[Mapping[str, Any]]) -> None:
        for event in events:
            key = event["content"].get(TRANSACTION_KEY)
            # Other users may copy a key; it only counts together with its sender.
            if isinstance(key, str) and event.get("sender") == sender:
                self.sent(sender, room_id, key, event["event_id"])
