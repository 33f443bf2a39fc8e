"""What living in rooms takes: each `Protocol` says no more than is used."""

from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from federation.bounded_cache import BoundedCache
from federation.errors import MatrixError, PeerError
from federation.identifiers import domain, is_user_id
from federation.media import MediaInfo, ReadableMedia
from federation.pdu import Pdu, StateKey
from federation.profile import MOST_CHARACTERS
from federation.remote_membership import NobodyHelped
from federation.service.ephemeral import EphemeralNews
from federation.service.membership import Membership
from federation.service.own_ephemeral import OwnEphemeral
from federation.service.room_graph import RoomGraph
from federation.service.room_ports import RoomView
from storage.database import Database

MEMBER: Final = "m.room.member"
MOST_USERS: Final = 10_000


class Profiles(Protocol):
    """`federation.service.profiles.Profiles`."""

    async def ensure_user(self, user: str) -> None: ...

    async def exists(self, user: str) -> bool: ...

    async def profile(self, user: str) -> Mapping[str, Any] | None: ...

    async def set_profile(self, user: str, **fields: Any) -> None: ...


class Directory(Protocol):
    """`federation.service.directory.Directory`."""

    async def create(self, alias: str, room_id: str, user: str) -> None: ...

    async def remove(self, alias: str) -> bool: ...

    async def resolve(self, alias: str) -> tuple[str, Sequence[str]] | None: ...

    async def aliases_of(self, room_id: str) -> Sequence[str]: ...

    async def publish(self, room_id: str, listed: bool) -> None: ...

    async def is_published(self, room_id: str) -> bool: ...


class MediaRepository(Protocol):
    """`federation.service.media.Media`."""

    async def upload(
        self,
        user: str,
        content: bytes | AsyncIterable[bytes],
        content_type: str | None = None,
        file_name: str | None = None,
    ) -> MediaInfo: ...

    def open(self, address: str) -> AbstractAsyncContextManager[ReadableMedia]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    server_name: str
    database: Database
    graph: RoomGraph
    membership: Membership
    profiles: Profiles
    directory: Directory
    media: MediaRepository
    news: EphemeralNews
    own: OwnEphemeral
    now_ms: Callable[[], int]


class HasParts:
    """What everything that users do has at hand."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        # Users of this server, as far as it has been seen that they can be.
        self._own: BoundedCache[str, bool] = BoundedCache(MOST_USERS)

    def _refuse_strangers(self, user: str) -> None:
        """Nobody acts here for a user of another server: our signature would be on it."""
        if self._own.get(user) is None:
            if domain(user) != self._parts.server_name or not is_user_id(user):
                raise MatrixError("M_FORBIDDEN", f"{user[:255]} is no user of this server.", 403)
            self._own.put(user, True)

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
