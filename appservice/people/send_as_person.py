"""Says things in rooms as people, who have let this node do so.

What is said bears the mark by which bridges know what they have said themselves, so that nothing that is said
in a person's name is taken for a new request of that person.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol

from cachetools import LRUCache
from mautrix.api import Method, Path, PathBuilder

from appservice.homeserver.api import HomeserverAway
from appservice.homeserver.client import HomeserverClient
from appservice.intake.received_event import TRANSACTION_KEY
from appservice.people.double_puppets import Puppets, marked
from appservice.registration.tokens import transaction_key
from federation.matrix.errors import MatrixError

MOST_ROOMS: Final = 2_000
MOST_KEYS: Final = 10_000
LOOKED_AT: Final = 100
"""Newest messages of a room among which to look for what this node has said before it was killed. What is
older the homeserver has told since; and for half an hour it knows by itself what is said again."""


class KnowsSent(Protocol):
    """`appservice.intake.known_rooms` does."""

    async def sent(self, sender: str, room_id: str, key: str) -> str | None: ...

    async def resident(self, room_id: str) -> str | None: ...


class Speaking:
    """Some people of the homeserver let this node send in their name."""

    def __init__(self, client: HomeserverClient, rooms: KnowsSent, puppets: Puppets) -> None:
        self._client = client
        self._rooms = rooms
        self._puppets = puppets
        self._looked: LRUCache[str, bool] = LRUCache(MOST_ROOMS)
        self._said: LRUCache[tuple[str, str, str], str] = LRUCache(MOST_KEYS)

    async def can_speak_for(self, person: str) -> bool:
        return await self._puppets.can_speak_for(person)

    async def speak(
        self, room_id: str, person: str, type_: str, content: Mapping[str, Any], *, transaction_id: str
    ) -> str:
        """As `MatrixBackend.send`, as a user of the homeserver. The event is marked as sent by this node,
        and has no effect when it is received."""
        key = transaction_key(person, room_id, transaction_id)
        known = await self._find(room_id, person, key)
        if known is not None:
            return known
        path = Path.v3.rooms[room_id].send[type_][key]
        said = {**marked(content), TRANSACTION_KEY: key}
        try:
            event_id = (await self._ask(Method.PUT, path, said, person)).get("event_id")
        except HomeserverAway:
            # Whether it was said is to be seen in the room.
            self._looked.pop(room_id, None)
            raise
        if not isinstance(event_id, str):
            raise MatrixError("M_UNKNOWN", "The homeserver did not say which event it has made.", 502)
        self._said[room_id, person, key] = event_id
        return event_id

    async def come_in(self, room_id: str, person: str) -> None:
        """Into a room to which the person has been invited, at the person's own wish."""
        await self._ask(Method.POST, Path.v3.rooms[room_id].join, {}, person)

    async def _ask(
        self, method: Method, path: PathBuilder, content: Mapping[str, Any], person: str
    ) -> dict[str, Any]:
        refusal = MatrixError("M_FORBIDDEN", f"This node cannot speak for {person[:255]}.", 403)
        for token in await self._puppets.tokens(person):
            try:
                return await self._client.ask(method, path, content, token=token.token, user=token.user)
            except MatrixError as refused:
                if refused.status != 401 and refused.errcode != "M_UNKNOWN_TOKEN":
                    raise
                await self._puppets.refused(person, token)
                refusal = refused
        raise refusal

    # -- what was said before --

    async def _find(self, room_id: str, person: str, key: str) -> str | None:
        named = room_id, person, key
        if self._said.get(named) is None and self._looked.get(room_id) is None:
            await self._look(room_id)
        # After that look: what was told since it was told by then.
        return self._said.get(named) or await self._rooms.sent(person, room_id, key)

    async def _look(self, room_id: str) -> None:
        """As one of ours who is there: without anybody nothing was shown there."""
        resident = await self._rooms.resident(room_id)
        if resident is None:
            return
        query = {"dir": "b", "limit": str(LOOKED_AT)}
        page = await self._client.ask(Method.GET, Path.v3.rooms[room_id].messages, user=resident, query=query)
        events = page.get("chunk")
        for event in events if isinstance(events, list) else []:
            content = event.get("content") if isinstance(event, dict) else None
            key = content.get(TRANSACTION_KEY) if isinstance(content, dict) else None
            sender, event_id = (
                (event.get("sender"), event.get("event_id")) if key is not None else (None, None)
            )
            if isinstance(key, str) and isinstance(sender, str) and isinstance(event_id, str):
                self._said[room_id, sender, key] = event_id
        self._looked[room_id] = True
