"""A homeserver on which nobody lives: what others say to its users concerns nobody."""

from collections.abc import Sequence

from federation.edu import DeviceListUpdate, Other, Presence, Receipts, SigningKeyUpdate, ToDevice, Typing
from federation.errors import MatrixError
from federation.service.homeserver import Doors
from federation.service.room_graph import RoomGraph
from storage.database import Connection
from storage.outside_memberships import OutsideMembership


class Nobody:
    """Satisfies `homeserver.People`."""

    def invited(self, invite: OutsideMembership, problem: str | None) -> None: ...

    def typing(self, typing: Typing) -> None: ...

    def receipts(self, receipts: Receipts) -> None: ...

    def presence(self, presence: Presence) -> None: ...

    def device_list(self, update: DeviceListUpdate | SigningKeyUpdate) -> None: ...

    def other(self, origin: str, edu: Other) -> None: ...

    async def to_device(self, connection: Connection, message: ToDevice) -> None: ...


def uninhabited(_: RoomGraph) -> Doors:
    async def no_alias(alias: str) -> tuple[str, Sequence[str]] | None:
        return None

    async def no_user(user: str, sender: str, room_id: str) -> None:
        raise MatrixError("M_NOT_FOUND", f"There is no user {user} here.", 404)

    return Doors(Nobody(), no_alias, no_user)
