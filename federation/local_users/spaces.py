"""Adds rooms to spaces, and sets the server ACLs of rooms."""

from collections.abc import Mapping, Sequence
from typing import Any

from federation.events.spaces import CHILD, PARENT, child_content, parent_content
from federation.local_users.sending import SendOperations
from federation.matrix.errors import MatrixError
from federation.rooms.server_acl import server_acl_content


class SpaceOperations(SendOperations):
    async def add_to_space(
        self, space_id: str, room_id: str, user: str, *, order: str | None = None, suggested: bool = False
    ) -> None:
        via = await self._via(room_id)
        await self.set_state(space_id, user, CHILD, child_content(via, order=order, suggested=suggested), room_id)
        await self._set_parent_if_allowed(room_id, user, parent_content(await self._via(space_id)), space_id)

    async def remove_from_space(self, space_id: str, room_id: str, user: str) -> None:
        if await self._current_event(space_id, (CHILD, room_id)) is not None:
            await self.set_state(space_id, user, CHILD, {}, room_id)
        if await self._current_event(room_id, (PARENT, space_id)) is not None:
            await self._set_parent_if_allowed(room_id, user, {}, space_id)

    async def server_acl(self, room_id: str) -> Mapping[str, Any] | None:
        entry = await self._current_event(room_id, ("m.room.server_acl", ""))
        return None if entry is None else entry.content

    async def set_server_acl(
        self,
        room_id: str,
        user: str,
        *,
        allow: Sequence[str] = ("*",),
        deny: Sequence[str] = (),
        allow_ip_literals: bool = True,
    ) -> None:
        own_name = self._services.server_name
        content = server_acl_content(own_name, allow, deny, allow_ip_literals=allow_ip_literals)
        await self.set_state(room_id, user, "m.room.server_acl", content)

    async def _set_parent_if_allowed(self, room_id: str, user: str, content: Mapping[str, Any], space_id: str) -> None:
        """Set the room's `m.space.parent` if the user may. It is optional: the space's `m.space.child`
        decides."""
        try:
            await self.set_state(room_id, user, PARENT, content, space_id)
        except MatrixError as refused:
            if refused.errcode not in {"M_FORBIDDEN", "M_NOT_FOUND"}:
                raise

    async def _via(self, room_id: str) -> list[str]:
        """Return the servers of a room, this server first if it is among them."""
        own_name = self._services.server_name
        servers = await self._services.graph.servers_in_room(room_id)
        return sorted(servers or {own_name}, key=lambda server: (server != own_name, server))
