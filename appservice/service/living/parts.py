"""What living in the rooms of a homeserver takes, and what everything that lives there asks first."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appservice.namespaces import Namespaces
from appservice.service.ghosts import GhostUsers
from appservice.service.homeserver_client import HomeserverClient
from appservice.service.stream import IntakeStream
from federation.errors import MatrixError
from federation.service.ephemeral import EphemeralNews
from storage.database import Database

if TYPE_CHECKING:
    from appservice.service.known_rooms import KnownRooms

MEMBER: Final = "m.room.member"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """`server_name` is what the homeserver is called. `report` is given a sentence for the operator."""

    server_name: str
    database: Database
    client: HomeserverClient
    namespaces: Namespaces
    ghosts: GhostUsers
    rooms: "KnownRooms"
    news: EphemeralNews
    stream: IntakeStream
    now_ms: Callable[[], int]
    report: Callable[[str], None]


class HasParts:
    """What everything that users do has at hand."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def _refuse_strangers(self, user: str) -> None:
        """Nobody acts here but ghosts: a homeserver lets an application service act for them alone."""
        if self._parts.namespaces.agent(user) is None:
            raise MatrixError("M_FORBIDDEN", f"{user[:255]} is no user of this server.", 403)

    async def _resident(self, room_id: str) -> str:
        """As whom to look into the room."""
        resident = await self._parts.rooms.resident(room_id)
        if resident is None:
            raise unknown_room()
        return resident


def unknown_room() -> MatrixError:
    return MatrixError("M_NOT_FOUND", "This server does not know that room.", 404)
