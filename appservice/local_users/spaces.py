"""Spaces and server ACLs."""

from collections.abc import Mapping, Sequence
from typing import Any

from appservice.local_users.sending import Sending
from federation.events.spaces import CHILD, PARENT, child_content, parent_content
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain
from federation.rooms.server_acl import server_acl_content

_ACL = "m.room.server_acl"


class Spaces(Sending):
    async def add_to_space(
        self, space_id: str, room_id: str, user: str, *, order: str | None = None, suggested: bool = False
    ) -> None:
        via = await self._via(room_id)
        await self.set_state(space_id, user, CHILD, child_content(via, order=order, suggested=suggested), room_id)
        await self._set_parent_if_allowed(room_id, user, parent_content(await self._via(space_id)), space_id)

    async def remove_from_space(self, space_id: str, room_id: str, user: str) -> None:
        if await self._parts.rooms.state_event(space_id, CHILD, room_id) is not None:
            await self.set_state(space_id, user, CHILD, {}, room_id)
        if await self._parts.rooms.state_event(room_id, PARENT, space_id) is not None:
            await self._set_parent_if_allowed(room_id, user, {}, space_id)

    async def server_acl(self, room_id: str) -> Mapping[str, Any] | None:
        entry = await self._parts.rooms.state_event(room_id, _ACL)
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
        """Refuses an ACL that would exclude the node's own homeserver."""
        own = self._parts.server_name
        content = server_acl_content(own, allow, deny, allow_ip_literals=allow_ip_literals)
        await self.set_state(room_id, user, _ACL, content)

    async def _set_parent_if_allowed(self, room_id: str, user: str, content: Mapping[str, Any], space_id: str) -> None:
        """The space's child event decides; the room's parent event is optional."""
        try:
            await self.set_state(room_id, user, PARENT, content, space_id)
        except MatrixError as refused:
            if refused.errcode not in {"M_FORBIDDEN", "M_NOT_FOUND"}:
                raise

    async def _via(self, room_id: str) -> list[str]:
        """The homeserver first if one of its users is in the room. For an unknown room it is the only
        server."""
        own = self._parts.server_name
        servers: set[str] = set()
        if await self._parts.rooms.resident(room_id) is not None:
            members = await self._parts.rooms.members(room_id)
            servers = {server for member in members if (server := domain(member.user_id))}
        return sorted(servers or {own}, key=lambda server: (server != own, server))
