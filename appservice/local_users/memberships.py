"""Profiles and memberships of ghosts: join, knock, leave, invite and moderation. An operation whose result
already holds does nothing."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

from mautrix.api import Method, Path, PathBuilder

from appservice.local_users.parts import MEMBER, Parts, UserOperations
from federation.directory.profile import MAX_CHARACTERS, apply_changes, parse_profile
from federation.events.room_event import Invite, Member
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain, is_room_id, is_server_name, is_user_id
from storage.concurrency import SingleFlight
from storage.federation.users import fetch_profile, update_profile


class Users(UserOperations):
    async def ensure_user(self, user: str) -> None:
        await self._parts.ghosts.ensure_user(user)

    async def profile(self, user: str) -> dict[str, Any] | None:
        if not is_user_id(user):
            raise MatrixError("M_INVALID_PARAM", f"{user[:255]} is not a user id.", 400)
        if not self._parts.namespaces.owns_user(user):
            return await self._ask_profile(user)
        if not await self._is_registered(user):
            return None
        # The profile that this node has set; nothing else changes it. If it is empty, the homeserver may have
        # set a default display name.
        profile = await self._parts.database.read(lambda connection: fetch_profile(connection, user))
        return profile or await self._ask_profile(user)

    async def set_profile(self, user: str, *, displayname: str | None = None, avatar_url: str | None = None) -> None:
        self._require_ghost(user)
        fields = {"displayname": displayname, "avatar_url": avatar_url}
        profile: Mapping[str, Any] = {name: text for name, text in fields.items() if text is not None}
        before = await self.profile(user)
        if before is None:
            raise MatrixError("M_NOT_FOUND", "There is no such user on this server.", 404)
        after = apply_changes(before, profile)
        for name in MAX_CHARACTERS:
            if before.get(name) != after.get(name):
                path = Path.v3.profile[user][name]
                # An empty value removes the field.
                await self._parts.client.request(Method.PUT, path, {name: after.get(name, "")}, user=user)
        # After the homeserver has stored it: a process that is killed in between sets it again.
        async with self._parts.database.transaction() as connection:
            await update_profile(connection, user, after)

    async def _is_registered(self, user: str) -> bool:
        """Whether the user is a ghost that is registered with the homeserver."""
        return self._parts.namespaces.agent(user) is not None and await self._parts.ghosts.is_registered(user)

    async def _ask_profile(self, user: str) -> dict[str, Any] | None:
        node_user = self._parts.namespaces.node_user
        # Homeservers may restrict profiles to their own users.
        requester = node_user if await self._parts.ghosts.is_registered(node_user) else None
        try:
            found = await self._parts.client.request(Method.GET, Path.v3.profile[user], user=requester)
        except MatrixError as refused:
            # "404: There is no profile information for this user or this user does not exist.", and "403: The
            # server is unwilling to disclose whether the user exists and/or has a profile".
            if refused.status in {403, 404}:
                return None
            raise
        return parse_profile(found) or {}


MEMBERSHIP_TIMEOUT: Final = 180.0
"""Seconds. A homeserver joins an unknown room through other servers before it responds."""


class Memberships(Users):
    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._joining: SingleFlight[tuple[str, str], None] = SingleFlight()

    async def _close_joining(self) -> None:
        await self._joining.close()

    async def join(self, room: str, user: str, *, via: Sequence[str] = (), reason: str | None = None) -> str:
        self._require_ghost(user)
        await self._require_user(user)
        room_id, servers = await self._find(room, via)
        if await self._membership_in(room_id, user) == "join":
            return room_id
        await self._joining.run((room_id, user), partial(self._join, room_id, user, servers, reason))
        return room_id

    async def _join(self, room_id: str, user: str, servers: Sequence[str], reason: str | None) -> None:
        """Concurrent joins are merged: under load Synapse creates an event for each of several joins."""
        await self._enter(Path.v3.join[room_id], user, servers, reason)
        await self._record_result(room_id, MEMBER, user, user)

    async def knock(self, room: str, user: str, *, via: Sequence[str] = (), reason: str | None = None) -> str:
        self._require_ghost(user)
        await self._require_user(user)
        room_id, servers = await self._find(room, via)
        if await self._membership_in(room_id, user) in {"join", "knock"}:
            return room_id
        await self._enter(Path.v3.knock[room_id], user, servers, reason)
        # A user who has only knocked cannot read the room.
        await self._record_result(room_id, MEMBER, user, await self._parts.rooms.resident(room_id) or user)
        return room_id

    async def leave(self, room_id: str, user: str, *, reason: str | None = None) -> None:
        self._require_ghost(user)
        if not is_room_id(room_id):
            return
        if await self._membership_in(room_id, user) not in {"join", "invite", "knock"}:
            return
        try:
            await self._parts.client.request(
                Method.POST,
                Path.v3.rooms[room_id].leave,
                _reason(reason),
                user=user,
                timeout_seconds=MEMBERSHIP_TIMEOUT,
            )
        except MatrixError as refused:
            # Leaving a room that the user is not in, or that no longer exists, has already succeeded.
            if refused.status not in {403, 404}:
                raise
        await self._record_result(room_id, MEMBER, user, user)

    async def invite(self, room_id: str, sender: str, user: str, *, reason: str | None = None) -> None:
        self._require_ghost(sender)
        self._require_room_id(room_id)
        if await self._membership_in(room_id, user) in {"join", "invite"}:
            return
        if not is_user_id(user):
            raise MatrixError("M_INVALID_PARAM", f"{user[:255]} is not a user id.", 400)
        if domain(user) == self._parts.server_name:
            # Homeservers invite unknown users, who can never respond.
            await self._require_user(user)
        await self._act(Path.v3.rooms[room_id].invite, room_id, sender, user, reason, {"join", "invite"})

    async def kick(self, room_id: str, sender: str, user: str, *, reason: str | None = None) -> None:
        from_memberships = {"join", "invite", "knock"}
        await self._moderate(Path.v3.rooms[room_id].kick, room_id, sender, user, from_memberships, reason)

    async def ban(self, room_id: str, sender: str, user: str, *, reason: str | None = None) -> None:
        from_memberships = {"join", "invite", "knock", "leave", None}
        await self._moderate(Path.v3.rooms[room_id].ban, room_id, sender, user, from_memberships, reason)

    async def unban(self, room_id: str, sender: str, user: str, *, reason: str | None = None) -> None:
        await self._moderate(Path.v3.rooms[room_id].unban, room_id, sender, user, {"ban"}, reason)

    async def joined_rooms(self, user: str) -> list[str]:
        self._require_ghost(user)
        return await self._parts.rooms.joined_rooms(user)

    async def invites(self, user: str) -> list[Invite]:
        self._require_ghost(user)
        return await self._parts.rooms.invites(user)

    async def members(self, room_id: str, memberships: Collection[str] = ("join",)) -> list[Member]:
        return await self._parts.rooms.members(room_id, tuple(memberships))

    async def membership(self, room_id: str, user: str) -> str | None:
        return await self._parts.rooms.membership(room_id, user)

    async def _moderate(
        self,
        path: PathBuilder,
        room_id: str,
        sender: str,
        user: str,
        from_memberships: Collection[str | None],
        reason: str | None,
    ) -> None:
        """Change a user's membership if the current one is in `from_memberships`."""
        self._require_ghost(sender)
        if not is_user_id(user):
            raise MatrixError("M_INVALID_PARAM", f"{user[:255]} is not a user id.", 400)
        self._require_room_id(room_id)
        await self._resident(room_id)
        if await self._membership_in(room_id, user) not in from_memberships:
            return
        others = {"join", "invite", "knock", "leave", "ban", None} - set(from_memberships)
        await self._act(path, room_id, sender, user, reason, others)

    async def _act(
        self, path: PathBuilder, room_id: str, sender: str, user: str, reason: str | None, done: Collection[str | None]
    ) -> None:
        """Make the request. If it is refused although the user's membership is in `done`, that counts as success."""
        content = {**_reason(reason), "user_id": user}
        try:
            await self._parts.client.request(
                Method.POST, path, content, user=sender, timeout_seconds=MEMBERSHIP_TIMEOUT
            )
        except MatrixError as refused:
            refusal = await self._refusal(room_id, sender, refused)
            # In a room without ghosts the memberships of others are unknown.
            if refusal is not refused or await self._membership_in(room_id, user) not in done:
                raise refusal from None
            return
        await self._record_result(room_id, MEMBER, user, sender)

    async def _enter(self, path: PathBuilder, user: str, servers: Sequence[str], reason: str | None) -> None:
        # `server_name` is what `via` was called before v1.12.
        query = {"via": servers, "server_name": servers} if servers else None
        try:
            await self._parts.client.request(
                Method.POST, path, _reason(reason), user=user, query=query, timeout_seconds=MEMBERSHIP_TIMEOUT
            )
        except MatrixError as refused:
            # Synapse returns M_UNKNOWN for a room that neither it nor a given server knows.
            if refused.status == 404:
                raise MatrixError("M_NOT_FOUND", refused.text, 404) from None
            raise

    async def _find(self, room: str, via: Sequence[str]) -> tuple[str, list[str]]:
        """Return the room id and servers to join through."""
        asked = [server for server in via if is_server_name(server)]
        if is_room_id(room):
            return room, asked
        found = await self._resolve(room)
        if found is None:
            raise MatrixError("M_NOT_FOUND", f"There is no room with the alias {room[:255]}.", 404)
        return found[0], list(dict.fromkeys([*asked, *found[1]]))

    async def _membership_in(self, room_id: str, user: str) -> str | None:
        return await self._parts.rooms.membership(room_id, user)

    async def _require_user(self, user: str) -> None:
        """The homeserver must know the user."""
        if self._parts.namespaces.owns_user(user):
            self._require_ghost(user)
            exists = await self._parts.ghosts.is_registered(user)
        else:
            exists = await self.profile(user) is not None
        if not exists:
            raise MatrixError("M_NOT_FOUND", f"There is no user {user} on this server.", 404)


def _reason(reason: str | None) -> dict[str, Any]:
    return {} if reason is None else {"reason": reason}
