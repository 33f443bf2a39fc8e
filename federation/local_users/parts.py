"""What living in rooms takes: each `Protocol` says no more than is used."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cachetools import LRUCache

from federation.directory.aliases import Directory
from federation.directory.profile import MOST_CHARACTERS
from federation.directory.profiles import Profiles
from federation.events import Pdu, StateKey
from federation.local_users.own_ephemeral import OwnEphemeral
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.identifiers import domain, is_user_id
from federation.media.repository import Media
from federation.memberships.outgoing import Membership
from federation.memberships.remote_membership import NobodyHelped
from federation.rooms.engine import RoomGraph
from federation.rooms.ports import RoomView
from federation.transactions.ephemeral import EphemeralNews
from storage.database import Database

MEMBER: Final = "m.room.member"
MOST_USERS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    server_name: str
    database: Database
    graph: RoomGraph
    membership: Membership
    profiles: Profiles
    directory: Directory
    media: Media
    news: EphemeralNews
    own: OwnEphemeral
    now_ms: Callable[[], int]


class HasParts:
    """What everything that users do has at hand."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        # Users of this server, as far as it has been seen that they can be.
        self._own: LRUCache[str, bool] = LRUCache(MOST_USERS)

    def _refuse_strangers(self, user: str) -> None:
        """Nobody acts here for a user of another server: our signature would be on it."""
        if self._own.get(user) is None:
            if domain(user) != self._parts.server_name or not is_user_id(user):
                raise MatrixError("M_FORBIDDEN", f"{user[:255]} is no user of this server.", 403)
            self._own[user] = True

    async def _room(self, room_id: str) -> RoomView:
        view = await self._parts.graph.room(room_id)
        if view is None:
            raise MatrixError("M_NOT_FOUND", "This server does not know that room.", 404)
        return view

    async def _entry(self, room_id: str, key: StateKey) -> Pdu | None:
        """Of the current state."""
        return (await self._parts.graph.current_events(room_id, [key])).get(key)

    async def _membership_in(self, room_id: str, user: str) -> str | None:
        """In a room whose state is known here."""
        member = await self._entry(room_id, (MEMBER, user))
        membership = None if member is None else member.membership
        return membership if isinstance(membership, str) else None

    async def _shown(self, user: str) -> dict[str, Any]:
        """What the member events of a user of this server say of the user. 404 when there is no such user."""
        self._refuse_strangers(user)
        profile = await self._parts.profiles.profile(user)
        if profile is None:
            raise MatrixError("M_NOT_FOUND", f"There is no user {user} here.", 404)
        return {name: profile[name] for name in MOST_CHARACTERS if name in profile}

    async def _resolve(self, alias: str) -> tuple[str, Sequence[str]] | None:
        try:
            return await self._parts.directory.resolve(alias)
        except PeerError as problem:
            raise NobodyHelped((problem,)).as_error() from problem
