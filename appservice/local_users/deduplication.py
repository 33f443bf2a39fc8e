"""What was sent under which key, so that it is not sent again.

A homeserver does not tell an application service what it made of a request whose answer was lost, and forgets
its transaction ids when it is started again. But it sends events to the intake, ours too, with the key that
was written into them; and what it has not sent yet stands at the end of the room. So does what it never
sends: Synapse, killed, loses what it has waiting for an application service.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from cachetools import LRUCache

from appservice.homeserver.client import HomeserverClient
from appservice.intake.known_rooms import KnownRooms
from appservice.intake.received_event import TRANSACTION_KEY
from appservice.intake.room_fetching import pages
from federation.matrix.errors import MatrixError
from storage.concurrency import SingleFlight
from storage.database import Database

MOST_KEYS: Final = 20_000
MOST_PLACES: Final = 20_000
Place = tuple[str, str]
"""Who sends, in which room."""


class SentBefore:
    """It is closed at the end."""

    def __init__(
        self, client: HomeserverClient, rooms: KnownRooms, database: Database, *, now_ms: Callable[[], int]
    ) -> None:
        self._client = client
        self._rooms = rooms
        self._database = database
        self._now_ms = now_ms
        self._known: LRUCache[tuple[str, str, str], str] = LRUCache(MOST_KEYS)
        # Where this process has seen all that was sent and not told.
        self._looked: LRUCache[Place, bool] = LRUCache(MOST_PLACES)
        self._looking: SingleFlight[Place, None] = SingleFlight()

    async def close(self) -> None:
        await self._looking.close()

    async def find(self, sender: str, room_id: str, key: str) -> str | None:
        """The event that the sender has sent under this key."""
        found = self._known.get((sender, room_id, key))
        if found is not None:
            return found
        if self._looked.get((sender, room_id)) is None:
            await self._looking.run((sender, room_id), partial(self._look, sender, room_id))
            found = self._known.get((sender, room_id, key))
            if found is not None:
                return found
        # After that look: what the look did not come to had been told by then.
        return await self._rooms.sent(sender, room_id, key)

    def sent(self, sender: str, room_id: str, key: str, event_id: str) -> None:
        self._known[sender, room_id, key] = event_id

    def doubt(self, sender: str, room_id: str) -> None:
        """Something was to be sent, and nobody knows whether it was."""
        self._looked.pop((sender, room_id), None)

    async def _look(self, sender: str, room_id: str) -> None:
        """Back to where all of a page has been told: further back there is nothing that was not."""
        try:
            async for events, _ in pages(self._client, self._database, room_id, sender, self._now_ms()):
                self._keep(sender, room_id, events)
        except MatrixError:
            # Whoever may not look there may not send there either, and is told so.
            return
        self._looked[sender, room_id] = True

    def _keep(self, sender: str, room_id: str, events: Iterable[Mapping[str, Any]]) -> None:
        for event in events:
            key = event["content"].get(TRANSACTION_KEY)
            # Others may copy a key; it is that of its sender.
            if isinstance(key, str) and event.get("sender") == sender:
                self.sent(sender, room_id, key, event["event_id"])
