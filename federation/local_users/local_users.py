"""The operations of local users: rooms, events, memberships, profiles, media and EDUs.

`LocalUsers` implements `bridge.matrix.backend.MatrixBackend`, which documents each operation."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any, Final

from federation.directory.aliases import Directory
from federation.directory.profiles import Profiles
from federation.events.room_event import EventFilter, match_all
from federation.local_users.create_room import RoomMaking
from federation.local_users.memberships import Memberships
from federation.local_users.own_ephemeral import OwnEphemeral
from federation.local_users.parts import Parts
from federation.local_users.presence import Presences
from federation.local_users.reading import Reading
from federation.local_users.spaces import Spaces
from federation.local_users.upgrade import Upgrading
from federation.matrix.capabilities import BackendCapability
from federation.matrix.errors import MatrixError, PeerError
from federation.media.media import MediaInfo, OpenMedia
from federation.media.repository import Media
from federation.memberships.outgoing import MembershipService
from federation.memberships.remote_membership import AllServersFailed
from federation.outbox.outbox import Outbox
from federation.rooms.engine import RoomGraph
from federation.stream.event_stream import Subscription
from federation.transactions.edu_dispatcher import EduDispatcher
from storage.database import Database
from storage.rooms.sent_transactions import prune_sent
from storage.rooms.stream import list_cursors

REPEATS: Final = timedelta(days=7)
"""How long the transaction ids of sent events are stored."""


class LocalUsers(RoomMaking, Memberships, Upgrading, Spaces, Reading, Presences):
    """The Matrix backend of a homeserver. Runs between `start` and `close`; so must the services it is
    given."""

    def __init__(
        self,
        server_name: str,
        database: Database,
        *,
        graph: RoomGraph,
        membership: MembershipService,
        profiles: Profiles,
        directory: Directory,
        media: Media,
        outbox: Outbox,
        news: EduDispatcher,
        now_ms: Callable[[], int],
        report: Callable[[str], None] = lambda problem: None,
    ) -> None:
        """`report` receives a sentence about each EDU that could not be sent."""
        own = OwnEphemeral(database, graph, outbox, news, now_ms=now_ms, report=report)
        super().__init__(
            Parts(
                server_name=server_name,
                database=database,
                graph=graph,
                membership=membership,
                profiles=profiles,
                directory=directory,
                media=media,
                news=news,
                own=own,
                now_ms=now_ms,
            )
        )

    def start(self) -> None:
        self._parts.own.start()

    async def close(self) -> None:
        await self._parts.own.close()

    async def prune(self) -> int:
        """Delete transaction ids older than `TRANSACTION_ID_RETENTION`; return how many were deleted."""
        async with self._parts.database.transaction() as connection:
            return await prune_sent(connection, REPEATS)

    async def lags(self) -> dict[str, int]:
        """Return by how many stream positions each reader is behind, by name. Unused positions are
        counted."""
        last = await self._parts.graph.stream.last_position()
        async with self._parts.database.transaction(readonly=True) as connection:
            cursors = await list_cursors(connection)
        return {name: max(0, last - position) for name, position in cursors.items()}

    @property
    def server_name(self) -> str:
        return self._parts.server_name

    @property
    def capabilities(self) -> frozenset[BackendCapability]:
        return frozenset(BackendCapability)

    def subscription(
        self, name: str, *, from_now: bool = False, wanted: EventFilter = match_all
    ) -> AbstractAsyncContextManager[Subscription]:
        return self._parts.graph.stream.subscription(name, from_now=from_now, wanted=wanted)

    # -- users --

    async def ensure_user(self, user: str) -> None:
        await self._parts.profiles.ensure_user(user)

    async def profile(self, user: str) -> Mapping[str, Any] | None:
        try:
            return await self._parts.profiles.profile(user)
        except PeerError as problem:
            raise AllServersFailed((problem,)).as_error() from problem

    async def set_profile(
        self, user: str, *, displayname: str | None = None, avatar_url: str | None = None
    ) -> None:
        self._refuse_strangers(user)
        said = {"displayname": displayname, "avatar_url": avatar_url}
        changes = {name: value for name, value in said.items() if value is not None}
        if changes:
            await self._parts.profiles.set_profile(user, **changes)

    # -- media --

    async def upload(
        self,
        user: str,
        content: bytes | AsyncIterable[bytes],
        content_type: str | None = None,
        file_name: str | None = None,
    ) -> MediaInfo:
        self._refuse_strangers(user)
        return await self._parts.media.upload(user, content, content_type, file_name)

    @asynccontextmanager
    async def download(self, mxc: str) -> AsyncIterator[OpenMedia]:
        async with AsyncExitStack() as stack:
            try:
                opened = await stack.enter_async_context(self._parts.media.open(mxc))
            except PeerError as problem:
                raise MatrixError("M_UNKNOWN", f"{problem.peer} did not provide {mxc}.", 502) from problem
            yield opened
