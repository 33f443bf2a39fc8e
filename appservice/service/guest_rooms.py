"""Living in the rooms of a homeserver as its guest: all that ghosts do, see and are told. It satisfies
`bridge.matrix_side.MatrixSide`, which says what each operation does.
"""

from contextlib import AbstractAsyncContextManager
from typing import Final

from appservice.service.living.media import MediaRepository
from appservice.service.living.memberships import Memberships
from appservice.service.living.presences import Presences
from appservice.service.living.reading import Reading
from appservice.service.living.spaces import Spaces
from appservice.service.living.upgrading import Upgrading
from appservice.service.stream import Subscription
from federation.room_event import Foresees, Wanted, everything
from federation.side_capability import SideCapability
from storage import room_stream
from storage.consumers import list_cursors
from storage.created_rooms import delete_created_room

CAPABILITIES: Final = frozenset({SideCapability.TO_DEVICE})


class GuestRooms(Memberships, Upgrading, Spaces, Reading, Presences, MediaRepository):
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
        last = await self._parts.database.look(room_stream.last_position)
        cursors = await self._parts.database.look(list_cursors)
        return {name: max(0, last - position) for name, position in cursors.items()}

    async def forget_made(self, room_id: str) -> None:
        """Whoever asks for it by its key is given another one."""
        async with self._parts.database.transaction() as connection:
            await delete_created_room(connection, room_id)

    @property
    def server_name(self) -> str:
        return self._parts.server_name

    @property
    def capabilities(self) -> frozenset[SideCapability]:
        return CAPABILITIES

    def subscription(
        self,
        name: str,
        *,
        from_now: bool = False,
        wanted: Wanted = everything,
        foresees: Foresees | None = None,
    ) -> AbstractAsyncContextManager[Subscription]:
        return self._parts.stream.subscription(name, from_now=from_now, wanted=wanted, foresees=foresees)
