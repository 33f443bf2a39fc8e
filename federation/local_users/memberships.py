"""Memberships: join, leave, knock, invite, kick and ban. An operation without an effect sends nothing."""

from collections.abc import Collection, Sequence
from typing import Any

import orjson

from federation.events.room_event import Invite, Member, member_of, to_room_event
from federation.local_users.operations import MEMBER, Operations
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain, is_room_id, is_user_id
from storage.rooms.rooms import fetch_members, fetch_rooms_of_user


class MembershipOperations(Operations):
    async def join(self, room: str, user: str, *, via: Sequence[str] = (), reason: str | None = None) -> str:
        profile = await self._member_profile(user)
        room_id, servers = await self._resolve_room(room, via)
        if await self._is_joined(room_id, user):
            return room_id
        await self._services.membership.join(room_id, user, servers, {**profile, **_reason(reason)})
        self._services.ephemeral.resend_presence(user)
        return room_id

    async def knock(self, room: str, user: str, *, via: Sequence[str] = (), reason: str | None = None) -> str:
        profile = await self._member_profile(user)
        room_id, servers = await self._resolve_room(room, via)
        outside = [one.room_id for one in await self._services.membership.outside_memberships(user)]
        if room_id in outside or await self._has_membership(room_id, user, {"join", "knock"}):
            return room_id
        return await self._services.membership.knock(room_id, user, servers, {**profile, **_reason(reason)})

    async def leave(self, room_id: str, user: str, *, reason: str | None = None) -> None:
        self._require_local_user(user)
        outside = [one.room_id for one in await self._services.membership.outside_memberships(user)]
        if room_id in outside or await self._has_membership(room_id, user, {"join", "invite", "knock"}):
            await self._services.membership.leave(room_id, user, _reason(reason))

    async def invite(self, room_id: str, sender: str, user: str, *, reason: str | None = None) -> None:
        self._require_local_user(sender)
        if await self._has_membership(room_id, user, {"join", "invite"}):
            return
        is_local = domain(user) == self._services.server_name
        profile = await self._member_profile(user) if is_local else {}
        await self._services.membership.invite(room_id, sender, user, {**profile, **_reason(reason)})

    async def kick(self, room_id: str, sender: str, user: str, *, reason: str | None = None) -> None:
        await self._moderate(room_id, sender, user, "leave", {"join", "invite", "knock"}, reason)

    async def ban(self, room_id: str, sender: str, user: str, *, reason: str | None = None) -> None:
        await self._moderate(room_id, sender, user, "ban", {"join", "invite", "knock", "leave", None}, reason)

    async def unban(self, room_id: str, sender: str, user: str, *, reason: str | None = None) -> None:
        await self._moderate(room_id, sender, user, "leave", {"ban"}, reason)

    async def joined_rooms(self, user: str) -> list[str]:
        self._require_local_user(user)
        async with self._services.database.transaction(readonly=True) as connection:
            return await fetch_rooms_of_user(connection, user)

    async def invites(self, user: str) -> list[Invite]:
        self._require_local_user(user)
        outside = [
            Invite(one.room_id, user, one.sender, one.event_id, tuple(orjson.loads(one.stripped_state)))
            for one in await self._services.membership.outside_memberships(user)
            if one.membership == "invite"
        ]
        async with self._services.database.transaction(readonly=True) as connection:
            rooms = await fetch_rooms_of_user(connection, user, ["invite"])
        # This server no longer receives events of rooms that all its users have left, so invites there are
        # outdated.
        inside = [
            Invite(room_id, user, event.sender, event.event_id)
            for room_id in rooms
            if await self._is_server_in_room(room_id) and (event := await self._current_event(room_id, (MEMBER, user)))
        ]
        return [*outside, *inside]

    async def members(self, room_id: str, memberships: Collection[str] = ("join",)) -> list[Member]:
        version = (await self._room(room_id)).version
        async with self._services.database.transaction(readonly=True) as connection:
            rows = await fetch_members(connection, room_id, memberships)
        known = await self._services.graph.events(row.event_id for row in rows)
        originals = [known[row.event_id] for row in rows]
        redacted = await self._services.graph.apply_redactions(originals)
        return [
            member_of(to_room_event(current, original, version))
            for current, original in zip(redacted, originals, strict=True)
        ]

    async def membership(self, room_id: str, user: str) -> str | None:
        return await self._membership_in(room_id, user)

    async def _moderate(
        self, room_id: str, sender: str, user: str, membership: str, current: Collection[str | None], reason: str | None
    ) -> None:
        """Set the membership of a user whose current membership is one of `current`; otherwise do nothing."""
        self._require_local_user(sender)
        if not is_user_id(user):
            raise MatrixError("M_INVALID_PARAM", f"{user[:255]} is not a valid user id.", 400)
        await self._room(room_id)
        if await self._membership_in(room_id, user) in current:
            content = {**_reason(reason), "membership": membership}
            await self._services.graph.send_event(room_id, MEMBER, content, sender, user)

    async def _resolve_room(self, room: str, via: Sequence[str]) -> tuple[str, list[str]]:
        """Return the room's id and servers through which it can be joined."""
        if is_room_id(room):
            return room, list(via)
        found = await self._resolve(room)
        if found is None:
            raise MatrixError("M_NOT_FOUND", f"The room alias {room[:255]} does not exist.", 404)
        return found[0], [*via, *found[1]]

    async def _is_server_in_room(self, room_id: str) -> bool:
        return await self._services.graph.is_server_in_room(room_id, self._services.server_name)

    async def _is_joined(self, room_id: str, user: str) -> bool:
        """Whether the local user is joined, so that this server is in the room too."""
        return await self._membership_in(room_id, user) == "join"

    async def _has_membership(self, room_id: str, user: str, memberships: Collection[str]) -> bool:
        """Whether this server is in the room and the user has one of these memberships."""
        return await self._is_server_in_room(room_id) and await self._membership_in(room_id, user) in memberships


def _reason(reason: str | None) -> dict[str, Any]:
    return {} if reason is None else {"reason": reason}
