"""Says things in rooms as people, who have let this node do so.

What is said bears the mark by which bridges know what they have said themselves, so that nothing that is said
in a person's name is taken for a new request of that person.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from mautrix.api import Method, Path, PathBuilder

from appservice.double_puppets import marked
from appservice.received_event import TRANSACTION_KEY
from appservice.service.homeserver_client import HomeserverClient
from appservice.service.puppets import Puppets
from appservice.transaction_key import transaction_key
from federation.errors import MatrixError


class KnowsSent(Protocol):
    """`appservice.service.known_rooms` does."""

    async def sent(self, sender: str, room_id: str, key: str) -> str | None: ...


class Speaking:
    """Satisfies `bridge.matrix_side.SpeaksForPeople`."""

    def __init__(self, client: HomeserverClient, rooms: KnowsSent, puppets: Puppets) -> None:
        self._client = client
        self._rooms = rooms
        self._puppets = puppets

    async def can_speak_for(self, person: str) -> bool:
        return await self._puppets.can_speak_for(person)

    async def speak(
        self, room_id: str, person: str, type_: str, content: Mapping[str, Any], *, transaction_id: str
    ) -> str:
        key = transaction_key(person, room_id, transaction_id)
        # The homeserver knows it again by the same name for half an hour, and we by its echo for a week.
        known = await self._rooms.sent(person, room_id, key)
        if known is not None:
            return known
        said = {**marked(content), TRANSACTION_KEY: key}
        path = Path.v3.rooms[room_id].send[type_][key]
        event_id = (await self._ask(Method.PUT, path, said, person)).get("event_id")
        if not isinstance(event_id, str):
            raise MatrixError("M_UNKNOWN", "The homeserver did not say which event it has made.", 502)
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
