"""The operations of local users: rooms, events, memberships, profiles, media and EDUs.

`LocalUsers` implements `bridge.matrix.backend.MatrixBackend`, which documents each operation."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any, Final

from federation.directory.aliases import Directory
from federation.directory.profiles import Profiles
from federation.events.room_event import EventFilter, match_all
from federation.local_users.create_room import RoomCreationOperations
from federation.local_users.ephemeral import EphemeralOperations
from federation.local_users.ephemeral_sender import EphemeralSender
from federation.local_users.memberships import MembershipOperations
from federation.local_users.operations import Services
from federation.local_users.reading import ReadOperations
from federation.local_users.spaces import SpaceOperations
from federation.local_users.upgrade import RoomUpgradeOperations
from federation.matrix.capabilities import BackendCapability
from federation.matrix.errors import MatrixError, PeerError
from federation.media.media import MediaInfo, OpenMedia
from federation.media.repository import MediaRepository
from federation.memberships.outgoing import MembershipService
from federation.memberships.remote_membership import AllServersFailed
from federation.outbox.outbox import Outbox
from federation.rooms.engine import RoomGraph
from federation.stream.event_stream import Subscription
from federation.transactions.edu_dispatcher import EduDispatcher
from storage.database import Database
from storage.rooms.sent_transactions import prune_sent
from storage.rooms.stream import list_cursors

TRANSACTION_ID_RETENTION: Final = timedelta(days=7)
"""How long the transaction ids of sent events are stored."""


class LocalUsers(
    RoomCreationOperations,
    MembershipOperations,
    RoomUpgradeOperations,
    SpaceOperations,
    ReadOperations,
    EphemeralOperations,
):
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
        media: MediaRepository,
        outbox: Outbox,
        edus: EduDispatcher,
        now_ms: Callable[[], int],
        report: Callable[[str], None] = lambda problem: None,
    ) -> None:
        """`report` receives a sentence about each EDU that could not be sent."""
        ephemeral = EphemeralSender(database, graph, outbox, edus, now_ms=now_ms, report=report)
        super().__init__(
            Services(
                server_name=server_name,
                database=database,
                graph=graph,
                membership=membership,
                profiles=profiles,
                directory=directory,
                media=media,
                edus=edus,
                ephemeral=ephemeral,
                now_ms=now_ms,
            )
        )

    def start(self) -> None:
        self._services.ephemeral.start()

    async def close(self) -> None:
        await self._services.ephemeral.close()

    async def prune(self) -> int:
        """Delete transaction ids older than `TRANSACTION_ID_RETENTION`; return how many were deleted."""
        async with self._services.database.transaction() as connection:
            return await prune_sent(connection, TRANSACTION_ID_RETENTION)

    async def lags(self) -> dict[str, int]:
        """Return by how many stream positions each reader is behind, by name. Unused positions are
        counted."""
        last = await self._services.graph.stream.last_position()
        async with self._services.database.transaction(readonly=True) as connection:
            cursors = await list_cursors(connection)
        return {name: max(0, last - position) for name, position in cursors.items()}

    @property
    def server_name(self) -> str:
        return self._services.server_name

    @property
    def capabilities(self) -> frozenset[BackendCapability]:
        return frozenset(BackendCapability)

    def subscription(
        self, name: str, *, from_now: bool = False, wanted: EventFilter = match_all
    ) -> AbstractAsyncContextManager[Subscription]:
        return self._services.graph.stream.subscription(name, from_now=from_now, wanted=wanted)

    # -- users --

    async def ensure_user(self, user: str) -> None:
        await self._services.profiles.ensure_user(user)

    async def profile(self, user: str) -> Mapping[str, Any] | None:
        try:
            return await self._services.profiles.profile(user)
        except PeerError as problem:
            raise AllServersFailed((problem,)).as_error() from problem

    async def set_profile(self, user: str, *, displayname: str | None = None, avatar_url: str | None = None) -> None:
        self._require_local_user(user)
        fields = {"displayname": displayname, "avatar_url": avatar_url}
        changes = {name: value for name, value in fields.items() if value is not None}
        if changes:
            await self._services.profiles.set_profile(user, **changes)

    # -- media --

    async def upload(
        self,
        user: str,
        content: bytes | AsyncIterable[bytes],
        content_type: str | None = None,
        file_name: str | None = None,
    ) -> MediaInfo:
        self._require_local_user(user)
        return await self._services.media.upload(user, content, content_type, file_name)

    @asynccontextmanager
    async def download(self, mxc: str) -> AsyncIterator[OpenMedia]:
        async with AsyncExitStack() as stack:
            try:
                opened = await stack.enter_async_context(self._services.media.open(mxc))
            except PeerError as problem:
                raise MatrixError("M_UNKNOWN", f"{problem.peer} did not provide {mxc}.", 502) from problem
            yield opened
