"""Sends events as people who have allowed this node to do so.

Each event carries the source mark of double puppets, so that it is not handled as a new request of that
person.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from cachetools import LRUCache
from mautrix.api import Method, Path, PathBuilder

from appservice.homeserver.api import HomeserverUnavailable
from appservice.homeserver.client import HomeserverClient
from appservice.intake.received_event import TRANSACTION_KEY
from appservice.people.double_puppets import DoublePuppets, with_source_mark
from appservice.registration.tokens import transaction_key
from federation.matrix.errors import MatrixError

MAX_ROOMS: Final = 2_000
MAX_KEYS: Final = 10_000
MAX_SCANNED_EVENTS: Final = 100
"""Newest events of a room that are searched for events that this node sent before it was killed. Older events
have been pushed since; and for half an hour the homeserver recognises a repeated transaction id itself."""


class SentEventLookup(Protocol):
    """Implemented by `appservice.intake.known_rooms.KnownRooms`."""

    async def sent(self, sender: str, room_id: str, key: str) -> str | None: ...

    async def resident(self, room_id: str) -> str | None: ...


class PersonSender:
    """Sends events as people of the homeserver who have allowed it."""

    def __init__(self, client: HomeserverClient, rooms: SentEventLookup, puppets: DoublePuppets) -> None:
        self._client = client
        self._rooms = rooms
        self._puppets = puppets
        self._scanned: LRUCache[str, bool] = LRUCache(MAX_ROOMS)
        self._sent: LRUCache[tuple[str, str, str], str] = LRUCache(MAX_KEYS)

    async def can_send_as(self, person: str) -> bool:
        return await self._puppets.can_send_as(person)

    async def send_as(
        self, room_id: str, person: str, type_: str, content: Mapping[str, Any], *, transaction_id: str
    ) -> str:
        """Like `MatrixBackend.send`, as a user of the homeserver. The event is marked as sent by this node
        and has no effect when it is received."""
        key = transaction_key(person, room_id, transaction_id)
        known = await self._find(room_id, person, key)
        if known is not None:
            return known
        path = Path.v3.rooms[room_id].send[type_][key]
        marked = {**with_source_mark(content), TRANSACTION_KEY: key}
        try:
            event_id = (await self._request(Method.PUT, path, marked, person)).get("event_id")
        except HomeserverUnavailable:
            # The event may have been sent: search the room for it next time.
            self._scanned.pop(room_id, None)
            raise
        if not isinstance(event_id, str):
            raise MatrixError("M_UNKNOWN", "The homeserver's response has no event id.", 502)
        self._sent[room_id, person, key] = event_id
        return event_id

    async def join_as(self, room_id: str, person: str) -> None:
        """Accept the person's invite to the room, at the person's request."""
        await self._request(Method.POST, Path.v3.rooms[room_id].join, {}, person)

    async def _request(
        self, method: Method, path: PathBuilder, content: Mapping[str, Any], person: str
    ) -> dict[str, Any]:
        refusal = MatrixError("M_FORBIDDEN", f"This node may not send as {person[:255]}.", 403)
        for token in await self._puppets.tokens(person):
            try:
                return await self._client.request(method, path, content, token=token.token, user=token.user)
            except MatrixError as refused:
                if refused.status != 401 and refused.errcode != "M_UNKNOWN_TOKEN":
                    raise
                await self._puppets.mark_refused(person, token)
                refusal = refused
        raise refusal

    # -- deduplication --

    async def _find(self, room_id: str, person: str, key: str) -> str | None:
        named = room_id, person, key
        if self._sent.get(named) is None and self._scanned.get(room_id) is None:
            await self._scan(room_id)
        # After the scan: events pushed since then are recorded.
        return self._sent.get(named) or await self._rooms.sent(person, room_id, key)

    async def _scan(self, room_id: str) -> None:
        """As a ghost in the room: without one nothing was sent there."""
        resident = await self._rooms.resident(room_id)
        if resident is None:
            return
        query = {"dir": "b", "limit": str(MAX_SCANNED_EVENTS)}
        page = await self._client.request(Method.GET, Path.v3.rooms[room_id].messages, user=resident, query=query)
        events = page.get("chunk")
        for event in events if isinstance(events, list) else []:
            content = event.get("content") if isinstance(event, dict) else None
            key = content.get(TRANSACTION_KEY) if isinstance(content, dict) else None
            sender, event_id = (event.get("sender"), event.get("event_id")) if key is not None else (None, None)
            if isinstance(key, str) and isinstance(sender, str) and isinstance(event_id, str):
                self._sent[room_id, sender, key] = event_id
        self._scanned[room_id] = True
