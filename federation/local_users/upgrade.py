"""Upgrades rooms: creates the replacement room and closes the old one."""

import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from federation.auth_rules.auth_event_selection import POWER_LEVELS
from federation.events import StateKey
from federation.events.room_event import NewEvent
from federation.events.spaces import CHILD, PARENT
from federation.local_users.sending import SendOperations
from federation.matrix.errors import MatrixError
from federation.rooms.upgrade import OldRoom, UpgradePlan, mute_old_room, plan, tombstone, with_new_room_allowed
from storage.rooms.aliases import fetch_created, insert_created, move_to_room
from storage.rooms.rooms import fetch_entries_of_rooms, fetch_rooms_of_user

_TOMBSTONE = "m.room.tombstone"
_JOIN_RULES = "m.room.join_rules"
_ALIAS = "m.room.canonical_alias"


class RoomUpgradeOperations(SendOperations):
    async def upgrade_room(
        self,
        room_id: str,
        user: str,
        version: str,
        *,
        additional_creators: Sequence[str] = (),
        also: Collection[str] = (),
    ) -> str:
        """Create the replacement room, and update the old room and the rooms that refer to it. The aliases
        move in the commit that creates the new room.

        Each step is done once. After a crash, calling this again does the missing ones."""
        profile = await self._member_profile(user)
        view = await self._room(room_id)
        new_room = await self._existing_upgrade(room_id, user)
        if new_room is None:
            await self._check_upgrade(room_id, user)
            old = OldRoom(room_id, view.version, await self._current_state(room_id), view.forward_extremities[0])
            planned = plan(
                old, user, version, profile=profile, additional_creators=additional_creators, extra_types=also
            )
            new_room = await self._create_replacement(planned, old, user)
        await self.set_state(room_id, user, _TOMBSTONE, tombstone(new_room))
        if await self._current_event(room_id, (_ALIAS, "")) is not None:
            await self._set_state_if_allowed(room_id, user, (_ALIAS, ""), {})
        await self._update_references(room_id, new_room, user)
        levels = await self._current_event(room_id, POWER_LEVELS)
        if levels is not None:
            await self._set_state_if_allowed(room_id, user, POWER_LEVELS, mute_old_room(levels.content, view.version))
        return new_room

    # -- the new room --

    async def _check_upgrade(self, room_id: str, user: str) -> None:
        closed = await self._current_event(room_id, (_TOMBSTONE, ""))
        if closed is not None and closed.content.get("replacement_room"):
            raise MatrixError("M_FORBIDDEN", "This room has already been replaced by another one.", 403)
        event = NewEvent(_TOMBSTONE, user, tombstone("!x"), "")
        await self._services.graph.prepare_event(room_id, event)

    async def _create_replacement(self, planned: UpgradePlan, old: OldRoom, user: str) -> str:
        concurrent_room: str | None = None
        chosen = None
        if not planned.version.create_event_is_room_id:
            chosen = f"!{secrets.token_urlsafe(18)}:{self._services.server_name}"
        creating = self._services.graph.creating_room(planned.version, planned.events, room_id=chosen)
        try:
            async with creating as new_room:
                connection, new_id = new_room.connection, new_room.room_id
                if not await insert_created(connection, user, _key(old.room_id), new_id):
                    concurrent_room = await fetch_created(connection, user, _key(old.room_id))
                    raise MatrixError("M_ROOM_IN_USE", "Another process is upgrading this room.", 409)
                await move_to_room(connection, old.room_id, new_id)
        except MatrixError:
            if concurrent_room is None:
                raise
            return concurrent_room
        return new_id

    async def _existing_upgrade(self, room_id: str, user: str) -> str | None:
        async with self._services.database.transaction(readonly=True) as connection:
            return await fetch_created(connection, user, _key(room_id))

    async def _current_state(self, room_id: str) -> dict[StateKey, Any]:
        graph = self._services.graph
        state = await graph.current_state(room_id)
        known = await graph.events(state.values())
        pdus = [known[event_id] for event_id in state.values()]
        # Redacted content is not copied.
        return dict(zip(state, await graph.apply_redactions(pdus), strict=True))

    # -- references to the old room --

    async def _update_references(self, old: str, new: str, user: str) -> None:
        """Replace the old room as child of spaces, as parent of rooms, and in join rules that admit its
        members, where the user has the power to do so."""
        async with self._services.database.transaction(readonly=True) as connection:
            rooms = await fetch_rooms_of_user(connection, user)
            spaces = await fetch_entries_of_rooms(connection, rooms, CHILD, old)
            children = await fetch_entries_of_rooms(connection, rooms, PARENT, old)
            rules = await fetch_entries_of_rooms(connection, rooms, _JOIN_RULES, "")
        events = await self._services.graph.events([*spaces.values(), *children.values(), *rules.values()])
        for type_, pointing in ((CHILD, spaces), (PARENT, children)):
            for room_id, event_id in pointing.items():
                content = events[event_id].content
                if room_id in (old, new) or not content:
                    continue
                if await self._set_state_if_allowed(room_id, user, (type_, new), content):
                    await self._set_state_if_allowed(room_id, user, (type_, old), {})
        for room_id, event_id in rules.items():
            follows = with_new_room_allowed(events[event_id].content, old, new)
            if room_id not in (old, new) and follows is not None:
                await self._set_state_if_allowed(room_id, user, (_JOIN_RULES, ""), follows)

    async def _set_state_if_allowed(self, room_id: str, user: str, key: StateKey, content: Mapping[str, Any]) -> bool:
        """Set a state event. Return whether the user was allowed to."""
        try:
            await self.set_state(room_id, user, key[0], content, key[1])
        except MatrixError as refused:
            if refused.errcode != "M_FORBIDDEN":
                raise
            return False
        return True


def _key(room_id: str) -> str:
    return f"upgrade of {room_id}"
