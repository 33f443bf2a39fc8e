"""What living in the rooms of a homeserver takes, and what everything that lives there asks first."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cachetools import LRUCache
from mautrix.api import Method, Path

from appservice.homeserver.api import HomeserverAway
from appservice.homeserver.client import HomeserverClient
from appservice.intake.known_rooms import KnownRooms
from appservice.intake.received_event import read
from appservice.intake.stream import IntakeStream
from appservice.people.ghosts import GhostUsers
from appservice.registration.namespaces import Namespaces
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import is_room_alias, is_room_id, is_server_name
from federation.transactions.edu_dispatcher import EduDispatcher
from storage.database import Database

CREATE: Final = "m.room.create"
MEMBER: Final = "m.room.member"
MOST_ROOMS: Final = 10_000
DOUBTED_AGAIN_MS: Final = 60_000
"""A room whose state is large is not fetched again for each thing that is refused in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """`server_name` is what the homeserver is called. `report` is given a sentence for the operator."""

    server_name: str
    database: Database
    client: HomeserverClient
    namespaces: Namespaces
    ghosts: GhostUsers
    rooms: KnownRooms
    news: EduDispatcher
    stream: IntakeStream
    now_ms: Callable[[], int]
    report: Callable[[str], None]


class HasParts:
    """What everything that users do has at hand."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        # Rooms of which the homeserver did not think what was thought here, and when that was.
        self._doubted: LRUCache[str, int] = LRUCache(MOST_ROOMS)

    def _refuse_strangers(self, user: str) -> None:
        """Nobody acts here but ghosts: a homeserver lets an application service act for them alone."""
        if self._parts.namespaces.agent(user) is None:
            raise MatrixError("M_FORBIDDEN", f"{user[:255]} is no user of this server.", 403)

    def _refuse_no_room(self, room_id: str) -> None:
        """What is no id of any room is not asked for: it could not be written into an address."""
        if not is_room_id(room_id):
            raise unknown_room()

    async def _resident(self, room_id: str) -> str:
        """As whom to look into the room."""
        resident = await self._parts.rooms.resident(room_id)
        if resident is None:
            raise unknown_room()
        return resident

    async def _resolve(self, alias: str) -> tuple[str, list[str]] | None:
        """The room and servers to join it by."""
        if not is_room_alias(alias):
            raise MatrixError("M_INVALID_PARAM", f"{alias[:255]} is not the alias of a room.", 400)
        try:
            found = await self._parts.client.ask(Method.GET, Path.v3.directory.room[alias])
        except MatrixError as refused:
            if refused.errcode == "M_NOT_FOUND":
                return None
            raise
        room_id, servers = found.get("room_id"), found.get("servers")
        if not isinstance(room_id, str) or not is_room_id(room_id):
            raise HomeserverAway(self._parts.client.url, "it does not say which room has the alias")
        listed = servers if isinstance(servers, list) else []
        return room_id, [one for one in listed if isinstance(one, str) and is_server_name(one)]

    async def _note(self, room_id: str, type_: str, state_key: str, as_user: str) -> None:
        """What the homeserver has made of something that was done in a room is known here before it tells.
        It says no id of what is done by one of its endpoints for memberships."""
        path = Path.v3.rooms[room_id].state[type_][state_key]
        try:
            found = await self._parts.client.ask(Method.GET, path, user=as_user, query={"format": "event"})
            received = read({**found, "room_id": room_id})
        except MatrixError:
            received = ""
        if isinstance(received, str):
            # It is too old to say so, or the user is not shown any more what became of it.
            await self._parts.rooms.doubt(room_id)
            return
        event = received.event
        await self._parts.rooms.noted(
            room_id, type_, state_key, event.sender, event.content, event.event_id, event.origin_server_ts
        )

    async def _refusal(self, room_id: str, user: str, refused: MatrixError) -> MatrixError:
        """What it means that the homeserver refuses a user of ours something in a room: as this node would
        say it if it were the homeserver."""
        # What homeservers ask of a content besides that it is one, Synapse says under M_UNKNOWN.
        if refused.errcode == "M_TOO_LARGE" or (refused.errcode == "M_UNKNOWN" and refused.status == 400):
            return MatrixError("M_BAD_JSON", f"The event cannot be sent: {refused.text}", 400)
        if refused.errcode not in {"M_FORBIDDEN", "M_NOT_FOUND"}:
            return refused
        now, before = self._parts.now_ms(), self._doubted.get(room_id)
        if before is None or now - before > DOUBTED_AGAIN_MS:
            self._doubted[room_id] = now
            await self._parts.rooms.doubt(room_id)
        # Fetched again, it is seen whether anybody of ours is there at all.
        if await self._parts.rooms.state_event(room_id, CREATE) is not None:
            return refused
        # Whoever has been there knows that there is such a room.
        return unknown_room() if await self._parts.rooms.membership(room_id, user) is None else refused


def unknown_room() -> MatrixError:
    return MatrixError("M_NOT_FOUND", "This server does not know that room.", 404)


def is_writable(name: str) -> bool:
    """Whether it can stand in an address. Homeservers fail over NUL."""
    return "\0" not in name and not any("\ud800" <= one <= "\udfff" for one in name)
