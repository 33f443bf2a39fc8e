"""Living in the rooms of a homeserver as its guest: all that ghosts do, see and are told. It satisfies
`bridge.matrix.backend.MatrixBackend`, which says what each operation does.
"""

from contextlib import AbstractAsyncContextManager
from typing import Final

from appservice.local_users.media import MediaRepository
from appservice.local_users.memberships import Memberships
from appservice.local_users.presence import Presences
from appservice.local_users.reading import Reading
from appservice.local_users.spaces import Spaces
from appservice.local_users.upgrade import Upgrading
from federation.events.room_event import EventFilter, match_all
from federation.matrix.capabilities import BackendCapability
from federation.stream.event_stream import Subscription
from storage.rooms import stream as room_stream
from storage.rooms.aliases import delete_created_room
from storage.rooms.stream import list_cursors

CAPABILITIES: Final = frozenset({BackendCapability.TO_DEVICE})


class AppserviceUsers(Memberships, Upgrading, Spaces, Reading, Presences, MediaRepository):
    """It runs between `start` and `close`, as do the parts that it is given."""

    def start(self) -> None:
        self._own.start()

    async def close(self) -> None:
        await self._own.close()
        await self._stop_making()
        await self._stop_joining()
        await super().close()

    async def lags(self) -> dict[str, int]:
        """By how many places in the stream each reader is behind, by name; places that were never used count
        too."""
        last = await self._parts.database.read(room_stream.fetch_last_position)
        cursors = await self._parts.database.read(list_cursors)
        return {name: max(0, last - position) for name, position in cursors.items()}

    async def forget_made(self, room_id: str) -> None:
        """Whoever asks for it by its key is given another one."""
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
