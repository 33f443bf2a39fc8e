"""The services and checks that all operations of local users share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cachetools import LRUCache

from federation.directory.aliases import Directory
from federation.directory.profile import MAX_CHARACTERS
from federation.directory.profiles import Profiles
from federation.events import Pdu, StateKey
from federation.local_users.ephemeral_sender import EphemeralSender
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.identifiers import domain, is_user_id
from federation.media.repository import MediaRepository
from federation.memberships.outgoing import MembershipService
from federation.memberships.remote_membership import AllServersFailed
from federation.rooms.engine import RoomGraph
from federation.rooms.ports import RoomView
from federation.transactions.edu_dispatcher import EduDispatcher
from storage.database import Database

MEMBER: Final = "m.room.member"
MAX_USERS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    server_name: str
    database: Database
    graph: RoomGraph
    membership: MembershipService
    profiles: Profiles
    directory: Directory
    media: MediaRepository
    edus: EduDispatcher
    ephemeral: EphemeralSender
    now_ms: Callable[[], int]


class Operations:
    """Base class of the operations of local users."""

    def __init__(self, parts: Services) -> None:
        self._services = parts
        # Valid user ids of this server that were checked before.
        self._own: LRUCache[str, bool] = LRUCache(MAX_USERS)

    def _require_local_user(self, user: str) -> None:
        """Refuse users of other servers: an event of theirs would be signed by this server."""
        if self._own.get(user) is None:
            if domain(user) != self._services.server_name or not is_user_id(user):
                raise MatrixError("M_FORBIDDEN", f"{user[:255]} is not a user of this server.", 403)
            self._own[user] = True

    async def _room(self, room_id: str) -> RoomView:
        view = await self._services.graph.room(room_id)
        if view is None:
            raise MatrixError("M_NOT_FOUND", "This server does not know this room.", 404)
        return view

    async def _current_event(self, room_id: str, key: StateKey) -> Pdu | None:
        """Return an event of the room's current state."""
        return (await self._services.graph.current_events(room_id, [key])).get(key)

    async def _membership_in(self, room_id: str, user: str) -> str | None:
        """Return the user's membership in a room that this server knows."""
        member = await self._current_event(room_id, (MEMBER, user))
        membership = None if member is None else member.membership
        return membership if isinstance(membership, str) else None

    async def _member_profile(self, user: str) -> dict[str, Any]:
        """Return the profile fields for the member events of a local user. 404 if the user does not
        exist."""
        self._require_local_user(user)
        profile = await self._services.profiles.profile(user)
        if profile is None:
            raise MatrixError("M_NOT_FOUND", f"The user {user} does not exist on this server.", 404)
        return {name: profile[name] for name in MAX_CHARACTERS if name in profile}

    async def _resolve(self, alias: str) -> tuple[str, Sequence[str]] | None:
        try:
            return await self._services.directory.resolve(alias)
        except PeerError as problem:
            raise AllServersFailed((problem,)).as_error() from problem
