"""Creates rooms, and manages their aliases and their entries in the room directory."""

import secrets
from collections.abc import Sequence
from dataclasses import replace

from federation.local_users.operations import Operations
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain
from federation.rooms.creation import CreatedRoom, CreateRoomRequest, RoomPlan, invite_content, plan
from storage.rooms.aliases import Alias, fetch_created, insert_alias, insert_created, publish_room

MAX_KEY_BYTES = 255


class RoomCreationOperations(Operations):
    async def create_room(self, request: CreateRoomRequest) -> CreatedRoom:
        """Create a room, or return the room that the creator created with the same key before.

        The room, its alias and its key are committed together. Users who could not be invited are in the
        result."""
        self._require_local_user(request.creator)
        known = await self._existing_room(request)
        not_invited = {}
        if known is None:
            strangers = [user for user in request.invite if await self._is_unknown(user)]
            not_invited = dict.fromkeys(strangers, "This user does not exist.")
            invited = [user for user in request.invite if user not in not_invited]
            request = replace(request, invite=invited)
            room_id, is_new = await self._create_room(request)
        else:
            room_id, is_new = known, False
        return CreatedRoom(room_id, is_new, not_invited | await self._invite_remaining(request, room_id))

    async def _create_room(self, request: CreateRoomRequest) -> tuple[str, bool]:
        creation = await self._plan(request)
        if creation.alias is not None and await self._resolve(creation.alias) is not None:
            # Another process may have handled the same request at the same moment.
            known = await self._existing_room(request)
            if known is None:
                raise _alias_taken(creation.alias)
            return known, False
        concurrent_room: str | None = None
        creating = self._services.graph.creating_room(creation.version, creation.events, room_id=creation.room_id)
        try:
            async with creating as new_room:
                connection, room_id = new_room.connection, new_room.room_id
                if request.key is not None and not await insert_created(
                    connection, request.creator, request.key, room_id
                ):
                    concurrent_room = await fetch_created(connection, request.creator, request.key)
                    raise MatrixError("M_ROOM_IN_USE", "Another process has just created this room.", 409)
                if creation.alias is not None:
                    row = Alias(creation.alias, room_id, request.creator, self._services.now_ms())
                    if not await insert_alias(connection, row):
                        raise _alias_taken(creation.alias)
                if request.listed:
                    await publish_room(connection, room_id)
        except MatrixError as refused:
            known = concurrent_room or (
                await self._existing_room(request) if refused.errcode == "M_ROOM_IN_USE" else None
            )
            if known is None:
                raise
            return known, False
        return room_id, True

    async def _plan(self, request: CreateRoomRequest) -> RoomPlan:
        users = [user for user in {request.creator, *request.invite} if self._is_local(user)]
        profiles = {user: await self._member_profile(user) for user in users}
        return plan(request, self._services.server_name, opaque=secrets.token_urlsafe(18), profiles=profiles)

    async def _existing_room(self, request: CreateRoomRequest) -> str | None:
        if request.key is None:
            return None
        if "\0" in request.key or len(request.key.encode("utf-8", "replace")) > MAX_KEY_BYTES:
            raise MatrixError(
                "M_INVALID_PARAM", f"The key of a room must have at most {MAX_KEY_BYTES} bytes and no NUL.", 400
            )
        async with self._services.database.transaction(readonly=True) as connection:
            return await fetch_created(connection, request.creator, request.key)

    async def _invite_remaining(self, request: CreateRoomRequest, room_id: str) -> dict[str, str]:
        """Invite the users whose servers have to sign the invite, which is not possible in the first
        commit. Users who already have a membership are not invited again."""
        refused = {}
        for user in dict.fromkeys(request.invite):
            if user == request.creator or await self._membership_in(room_id, user) is not None:
                continue
            content = {name: value for name, value in invite_content(request, {}).items() if name != "membership"}
            try:
                await self._services.membership.invite(room_id, request.creator, user, content)
            except MatrixError as error:
                refused[user] = error.text
        return refused

    async def _is_unknown(self, user: str) -> bool:
        return self._is_local(user) and not await self._services.profiles.exists(user)

    def _is_local(self, user: str) -> bool:
        return domain(user) == self._services.server_name

    # -- aliases --

    async def resolve_alias(self, alias: str) -> tuple[str, Sequence[str]] | None:
        return await self._resolve(alias)

    async def create_alias(self, alias: str, room_id: str, user: str) -> None:
        self._require_local_user(user)
        await self._services.directory.create(alias, room_id, user)

    async def remove_alias(self, alias: str) -> None:
        await self._services.directory.remove(alias)

    async def publish(self, room_id: str, *, published: bool) -> None:
        await self._services.directory.publish(room_id, published)


def _alias_taken(alias: str) -> MatrixError:
    # "M_ROOM_IN_USE: Will be returned if the room alias supplied is already in use", with status 400.
    return MatrixError("M_ROOM_IN_USE", f"The alias {alias} belongs to another room.", 400)
