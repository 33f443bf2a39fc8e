"""Memberships of local users: join, leave, knock and invite, and what moderators do. An operation whose
effect is already reached does nothing."""

from collections.abc import Collection, Sequence
from typing import Any

import orjson

from federation.events.room_event import Invite, Member, member_of, to_room_event
from federation.local_users.parts import MEMBER, HasParts
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain, is_room_id, is_user_id
from storage.rooms.rooms import fetch_members, fetch_rooms_of_user


class Memberships(HasParts):
    async def join(self, room: str, user: str, *, via: Sequence[str] = (), reason: str | None = None) -> str:
        shown = await self._shown(user)
        room_id, servers = await self._find(room, via)
        if await self._is_joined(room_id, user):
            return room_id
        await self._parts.membership.join(room_id, user, servers, {**shown, **_reason(reason)})
        self._parts.own.meet(user)
        return room_id

    async def knock(self, room: str, user: str, *, via: Sequence[str] = (), reason: str | None = None) -> str:
        shown = await self._shown(user)
        room_id, servers = await self._find(room, via)
        outside = [one.room_id for one in await self._parts.membership.outside_memberships(user)]
        if room_id in outside or await self._is_here_as(room_id, user, {"join", "knock"}):
            return room_id
        return await self._parts.membership.knock(room_id, user, servers, {**shown, **_reason(reason)})

    async def leave(self, room_id: str, user: str, *, reason: str | None = None) -> None:
        self._refuse_strangers(user)
        outside = [one.room_id for one in await self._parts.membership.outside_memberships(user)]
        if room_id in outside or await self._is_here_as(room_id, user, {"join", "invite", "knock"}):
            await self._parts.membership.leave(room_id, user, _reason(reason))

    async def invite(self, room_id: str, sender: str, user: str, *, reason: str | None = None) -> None:
        self._refuse_strangers(sender)
        if await self._is_here_as(room_id, user, {"join", "invite"}):
            return
        ours = domain(user) == self._parts.server_name
        shown = await self._shown(user) if ours else {}
        await self._parts.membership.invite(room_id, sender, user, {**shown, **_reason(reason)})

    async def kick(self, room_id: str, sender: str, user: str, *, reason: str | None = None) -> None:
        await self._moderate(room_id, sender, user, "leave", {"join", "invite", "knock"}, reason)

    async def ban(self, room_id: str, sender: str, user: str, *, reason: str | None = None) -> None:
        await self._moderate(room_id, sender, user, "ban", {"join", "invite", "knock", "leave", None}, reason)

    async def unban(self, room_id: str, sender: str, user: str, *, reason: str | None = None) -> None:
        await self._moderate(room_id, sender, user, "leave", {"ban"}, reason)

    async def joined_rooms(self, user: str) -> list[str]:
        self._refuse_strangers(user)
        async with self._parts.database.transaction(readonly=True) as connection:
            return await fetch_rooms_of_user(connection, user)

    async def invites(self, user: str) -> list[Invite]:
        self._refuse_strangers(user)
        outside = [
            Invite(one.room_id, user, one.sender, one.event_id, tuple(orjson.loads(one.stripped_state)))
            for one in await self._parts.membership.outside_memberships(user)
            if one.membership == "invite"
        ]
        async with self._parts.database.transaction(readonly=True) as connection:
            rooms = await fetch_rooms_of_user(connection, user, ["invite"])
        # This server no longer receives events of rooms that all its users have left, so invites there are
        # outdated.
        inside = [
            Invite(room_id, user, event.sender, event.event_id)
            for room_id in rooms
            if await self._is_here(room_id) and (event := await self._entry(room_id, (MEMBER, user)))
        ]
        return [*outside, *inside]

    async def members(self, room_id: str, memberships: Collection[str] = ("join",)) -> list[Member]:
        version = (await self._room(room_id)).version
        async with self._parts.database.transaction(readonly=True) as connection:
            rows = await fetch_members(connection, room_id, memberships)
        known = await self._parts.graph.events(row.event_id for row in rows)
        originals = [known[row.event_id] for row in rows]
        shown = await self._parts.graph.apply_redactions(originals)
        return [
            member_of(to_room_event(seen, original, version))
            for seen, original in zip(shown, originals, strict=True)
        ]

    async def membership(self, room_id: str, user: str) -> str | None:
        return await self._membership_in(room_id, user)

    async def _moderate(
        self,
        room_id: str,
        sender: str,
        user: str,
        membership: str,
        where: Collection[str | None],
        reason: str | None,
    ) -> None:
        """Set the membership of a user whose current membership is one of `where`; otherwise do nothing."""
        self._refuse_strangers(sender)
        if not is_user_id(user):
            raise MatrixError("M_INVALID_PARAM", f"{user[:255]} is not a valid user id.", 400)
        await self._room(room_id)
        if await self._membership_in(room_id, user) in where:
            content = {**_reason(reason), "membership": membership}
            await self._parts.graph.send_event(room_id, MEMBER, content, sender, user)

    async def _find(self, room: str, via: Sequence[str]) -> tuple[str, list[str]]:
        """Return the room's id and servers through which it can be joined."""
        if is_room_id(room):
            return room, list(via)
        found = await self._resolve(room)
        if found is None:
            raise MatrixError("M_NOT_FOUND", f"The room alias {room[:255]} does not exist.", 404)
        return found[0], [*via, *found[1]]

    async def _is_here(self, room_id: str) -> bool:
        return await self._parts.graph.is_server_in_room(room_id, self._parts.server_name)

    async def _is_joined(self, room_id: str, user: str) -> bool:
        """Whether the local user is joined, so that this server is in the room too."""
        return await self._membership_in(room_id, user) == "join"

    async def _is_here_as(self, room_id: str, user: str, memberships: Collection[str]) -> bool:
        """Whether this server is in the room and the user has one of these memberships."""
        return await self._is_here(room_id) and await self._membership_in(room_id, user) in memberships


def _reason(reason: str | None) -> dict[str, Any]:
    return {} if reason is None else {"reason": reason}
