"""The shared parts of the operations in rooms, and the checks that each of them begins with."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cachetools import LRUCache
from mautrix.api import Method, Path

from appservice.homeserver.api import HomeserverUnavailable
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
MAX_ROOMS: Final = 10_000
REFETCH_INTERVAL_MS: Final = 60_000
"""The state of a large room is not fetched again after every refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """`server_name` is the homeserver's server name. `report` receives a sentence for the operator."""

    server_name: str
    database: Database
    client: HomeserverClient
    namespaces: Namespaces
    ghosts: GhostUsers
    rooms: KnownRooms
    ephemeral: EduDispatcher
    stream: IntakeStream
    now_ms: Callable[[], int]
    report: Callable[[str], None]


class UserOperations:
    """Base of the operations: holds the parts and common checks."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        # Rooms whose stored state contradicted the homeserver, with the time of the last invalidation.
        self._refetched: LRUCache[str, int] = LRUCache(MAX_ROOMS)

    def _require_ghost(self, user: str) -> None:
        """A homeserver lets an application service act for its own users only."""
        if self._parts.namespaces.agent(user) is None:
            raise MatrixError("M_FORBIDDEN", f"{user[:255]} is not a user of this server.", 403)

    def _require_room_id(self, room_id: str) -> None:
        """An invalid room id could not be used in a URL."""
        if not is_room_id(room_id):
            raise unknown_room()

    async def _resident(self, room_id: str) -> str:
        """Return a ghost in the room, to act as when reading it."""
        resident = await self._parts.rooms.resident(room_id)
        if resident is None:
            raise unknown_room()
        return resident

    async def _resolve(self, alias: str) -> tuple[str, list[str]] | None:
        """Return the room id and servers to join through."""
        if not is_room_alias(alias):
            raise MatrixError("M_INVALID_PARAM", f"{alias[:255]} is not the alias of a room.", 400)
        try:
            found = await self._parts.client.request(Method.GET, Path.v3.directory.room[alias])
        except MatrixError as refused:
            if refused.errcode == "M_NOT_FOUND":
                return None
            raise
        room_id, servers = found.get("room_id"), found.get("servers")
        if not isinstance(room_id, str) or not is_room_id(room_id):
            raise HomeserverUnavailable(self._parts.client.url, "its response has no valid room_id")
        listed = servers if isinstance(servers, list) else []
        return room_id, [one for one in listed if isinstance(one, str) and is_server_name(one)]

    async def _record_result(self, room_id: str, type_: str, state_key: str, as_user: str) -> None:
        """Record the result of a change before the homeserver pushes it. Its membership endpoints return no
        event id."""
        path = Path.v3.rooms[room_id].state[type_][state_key]
        try:
            found = await self._parts.client.request(Method.GET, path, user=as_user, query={"format": "event"})
            received = read({**found, "room_id": room_id})
        except MatrixError:
            received = ""
        if isinstance(received, str):
            # The homeserver is too old for `format=event`, or the user may no longer read the room.
            await self._parts.rooms.invalidate(room_id)
            return
        event = received.event
        await self._parts.rooms.record_change(
            room_id, type_, state_key, event.sender, event.content, event.event_id, event.origin_server_ts
        )

    async def _refusal(self, room_id: str, user: str, refused: MatrixError) -> MatrixError:
        """Translate the homeserver's refusal into the one that a node that is a homeserver itself would
        return."""
        # Synapse uses M_UNKNOWN for content that violates its own requirements.
        if refused.errcode == "M_TOO_LARGE" or (refused.errcode == "M_UNKNOWN" and refused.status == 400):
            return MatrixError("M_BAD_JSON", f"The event cannot be sent: {refused.text}", 400)
        if refused.errcode not in {"M_FORBIDDEN", "M_NOT_FOUND"}:
            return refused
        now, before = self._parts.now_ms(), self._refetched.get(room_id)
        if before is None or now - before > REFETCH_INTERVAL_MS:
            self._refetched[room_id] = now
            await self._parts.rooms.invalidate(room_id)
        # Fetching the state again shows whether any ghost is in the room.
        if await self._parts.rooms.state_event(room_id, CREATE) is not None:
            return refused
        # A user with any membership already knows that the room exists.
        return unknown_room() if await self._parts.rooms.membership(room_id, user) is None else refused


def unknown_room() -> MatrixError:
    return MatrixError("M_NOT_FOUND", "This server does not know that room.", 404)


def is_writable(name: str) -> bool:
    """Whether the name can be used in a URL. Homeservers fail on NUL."""
    return "\0" not in name and not any("\ud800" <= one <= "\udfff" for one in name)
