"""What was sent under which key, so that it is not sent again.

A homeserver does not tell an application service what it made of a request whose answer was lost, and forgets
its transaction ids when it is started again. But it sends every event to the intake, ours too, with the key
that was written into it; and what it has not sent yet stands at the end of the room.
"""

from functools import partial
from typing import Any, Final

from mautrix.api import Method, Path

from appservice.received_event import TRANSACTION_KEY
from appservice.service.homeserver_client import HomeserverClient
from appservice.service.known_rooms import KnownRooms
from federation.bounded_cache import BoundedCache
from federation.errors import MatrixError
from federation.service.single_flight import SingleFlight

MOST_KEYS: Final = 20_000
MOST_PLACES: Final = 20_000
FIRST_PAGE: Final = 20
PAGE: Final = 100
MOST_PAGES: Final = 10
"""Of what was said in a room since the homeserver last told us of it. Where that is more than a thousand
events, its own memory of transaction ids has to do until it has told them."""

Place = tuple[str, str]
"""Who sends, in which room."""


class SentBefore:
    """It is closed at the end."""

    def __init__(self, client: HomeserverClient, rooms: KnownRooms) -> None:
        self._client = client
        self._rooms = rooms
        self._known: BoundedCache[tuple[str, str, str], str] = BoundedCache(MOST_KEYS)
        # Where this process has seen all that was sent and not told.
        self._looked: BoundedCache[Place, bool] = BoundedCache(MOST_PLACES)
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
        self._known.put((sender, room_id, key), event_id)

    def doubt(self, sender: str, room_id: str) -> None:
        """Something was to be sent, and nobody knows whether it was."""
        self._looked.forget((sender, room_id))

    async def _look(self, sender: str, room_id: str) -> None:
        """Back to an event that the homeserver has told: it tells them in their order."""
        query = {"dir": "b", "limit": str(FIRST_PAGE)}
        for _ in range(MOST_PAGES):
            try:
                path = Path.v3.rooms[room_id].messages
                page = await self._client.ask(Method.GET, path, user=sender, query=query)
            except MatrixError:
                # Whoever may not look there may not send there either, and is told so.
                return
            events, end = page.get("chunk"), page.get("end")
            for event in events if isinstance(events, list) else []:
                if await self._is_told(sender, room_id, event):
                    self._looked.put((sender, room_id), True)
                    return
            if not events or not isinstance(end, str):
                break
            query = {"dir": "b", "limit": str(PAGE), "from": end}
        self._looked.put((sender, room_id), True)

    async def _is_told(self, sender: str, room_id: str, event: Any) -> bool:
        if not isinstance(event, dict) or not isinstance(event_id := event.get("event_id"), str):
            return False
        content = event.get("content")
        key = content.get(TRANSACTION_KEY) if isinstance(content, dict) else None
        if isinstance(key, str) and event.get("sender") == sender:
            self.sent(sender, room_id, key, event_id)
        return await self._rooms.knows_event(event_id)
