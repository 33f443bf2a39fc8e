"""What was sent under which key, so that it is not sent again.

A homeserver does not tell an application service what it made of a request whose answer was lost, and forgets
its transaction ids when it is started again. But it sends events to the intake, ours too, with the key that
was written into them; and what it has not sent yet stands at the end of the room. So does what it never
sends: Synapse, killed, loses what it has waiting for an application service.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from mautrix.api import Method, Path

from appservice.received_event import TRANSACTION_KEY
from appservice.service.homeserver_client import HomeserverClient
from appservice.service.known_rooms import KnownRooms
from federation.bounded_cache import BoundedCache
from federation.edu.fields import is_event
from federation.errors import MatrixError
from federation.service.single_flight import SingleFlight
from storage.appservice_events import fetch_known
from storage.database import Database

MOST_KEYS: Final = 20_000
MOST_PLACES: Final = 20_000
PAGE: Final = 100
MOST_PAGES: Final = 10
"""What was not told is looked for among a thousand events. Where there are more, the homeserver's own memory
of transaction ids has to do until it has told them."""
REPEATED_MS: Final = 7 * 24 * 3_600 * 1_000
"""For how long a transaction id is good, and what was told is kept."""

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
        """Back to where all of a page has been told: further back there is nothing that was not."""
        query = {"dir": "b", "limit": str(PAGE)}
        for _ in range(MOST_PAGES):
            try:
                path = Path.v3.rooms[room_id].messages
                page = await self._client.ask(Method.GET, path, user=sender, query=query)
            except MatrixError:
                # Whoever may not look there may not send there either, and is told so.
                return
            chunk, end = page.get("chunk"), page.get("end")
            events = [event for event in chunk if _is_event(event)] if isinstance(chunk, list) else []
            self._keep(sender, room_id, events)
            if not isinstance(end, str) or await self._are_told(events):
                break
            query = {"dir": "b", "limit": str(PAGE), "from": end}
        self._looked.put((sender, room_id), True)

    def _keep(self, sender: str, room_id: str, events: Iterable[Mapping[str, Any]]) -> None:
        for event in events:
            key = event["content"].get(TRANSACTION_KEY)
            # Others may copy a key; it is that of its sender.
            if isinstance(key, str) and event.get("sender") == sender:
                self.sent(sender, room_id, key, event["event_id"])

    async def _are_told(self, events: Iterable[Mapping[str, Any]]) -> bool:
        """Or so old that nobody repeats them."""
        oldest = self._now_ms() - REPEATED_MS
        recent = {event["event_id"] for event in events if _time(event) > oldest}
        if not recent:
            return True
        return recent <= await self._database.look(partial(fetch_known, event_ids=list(recent)))


def _is_event(event: Any) -> bool:
    return (
        isinstance(event, dict) and is_event(event.get("event_id")) and isinstance(event.get("content"), dict)
    )


def _time(event: Mapping[str, Any]) -> int:
    ts = event.get("origin_server_ts")
    return ts if type(ts) is int else 0
