"""The operations of ghosts in rooms, through the homeserver's client-server API. Implements
`bridge.matrix.backend.MatrixBackend`, which documents each operation."""

from contextlib import AbstractAsyncContextManager
from typing import Final

from appservice.local_users.media import MediaRepository
from appservice.local_users.memberships import Memberships
from appservice.local_users.presence import Presence
from appservice.local_users.reading import Reading
from appservice.local_users.spaces import Spaces
from appservice.local_users.upgrade import RoomUpgrades
from federation.events.room_event import EventFilter, match_all
from federation.matrix.capabilities import BackendCapability
from federation.stream.event_stream import Subscription
from storage.rooms import stream as room_stream
from storage.rooms.aliases import delete_created_room
from storage.rooms.stream import list_cursors

CAPABILITIES: Final = frozenset({BackendCapability.TO_DEVICE})


class AppserviceUsers(Memberships, RoomUpgrades, Spaces, Reading, Presence, MediaRepository):
    """It runs between `start` and `close`, as do the parts it is given."""

    def start(self) -> None:
        self._ephemeral.start()

    async def close(self) -> None:
        await self._ephemeral.close()
        await self._close_creation()
        await self._close_joining()
        await super().close()

    async def lags(self) -> dict[str, int]:
        """Return by how many positions of the stream each reader is behind, by name; unused positions count
        too."""
        last = await self._parts.database.read(room_stream.fetch_last_position)
        cursors = await self._parts.database.read(list_cursors)
        return {name: max(0, last - position) for name, position in cursors.items()}

    async def forget_created_room(self, room_id: str) -> None:
        """The next request with the room's key creates another room."""
        async with self._parts.database.transaction() as connection:
            await delete_created_room(connection, room_id)

    @property
    def server_name(self) -> str:
        return self._parts.server_name

    @property
    def capabilities(self) -> frozenset[BackendCapability]:
        return CAPABILITIES

    def subscription(
        self, name: str, *, from_now: bool = False, wanted: EventFilter = match_all
    ) -> AbstractAsyncContextManager[Subscription]:
        return self._parts.stream.subscription(name, from_now=from_now, wanted=wanted)
