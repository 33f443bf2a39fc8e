"""Closing a room and going on in another one.

How a homeserver is asked for the room in which another one goes on: by the same steps as a node that is a
homeserver itself, since a homeserver's own upgrade takes along what it thinks best.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mautrix.api import Method, Path

from appservice.local_users.create_room import Making, RoomMaking, body_of, mark_of, version_of
from appservice.local_users.lookups import Looking
from appservice.local_users.parts import MEMBER, unknown_room
from appservice.local_users.sending import Sending
from federation.auth_rules.auth_event_selection import POWER_LEVELS
from federation.auth_rules.levels import PowerLevels
from federation.events import CREATE, StateKey
from federation.events.room_event import NewEvent, RoomEvent
from federation.events.spaces import CHILD, PARENT
from federation.matrix.errors import MatrixError
from federation.rooms.upgrade import (
    OldRoom,
    UpgradePlan,
    mute_old_room,
    plan,
    tombstone,
    with_new_room_allowed,
)

ALIAS: Final = "m.room.canonical_alias"
_CREATE: Final = "m.room.create"
_MEMBER: Final = "m.room.member"
_POWER_LEVELS: Final = "m.room.power_levels"


@dataclass(frozen=True, slots=True)
class Moving:
    """First the room is made, then bans are said in it, and last who may do what from then on."""

    making: Making
    bans: tuple[NewEvent, ...]
    levels: Mapping[str, Any]


def moving(planned: UpgradePlan, user: str, mark: str, *, listed: bool) -> Moving:
    """The names of the old room are given to the new one when it is there."""
    create = next(event for event in planned.events if event.type == _CREATE)
    levels = [event for event in planned.events if event.type == _POWER_LEVELS]
    apart = {_CREATE, _MEMBER, _POWER_LEVELS, ALIAS}
    state = tuple(event for event in planned.events if event.type not in apart)
    bans = tuple(
        event
        for event in planned.events
        if event.type == _MEMBER and event.content.get("membership") == "ban"
    )
    body = body_of(planned.version, create, levels[0], state, mark, listed=listed)
    return Moving(Making(user, body, None, levels[0].content, state), bans, levels[-1].content)


def names_in(alias: RoomEvent | None) -> list[str]:
    """The aliases that a room says it has, the first of which it is called by."""
    content = {} if alias is None else alias.content
    further = content.get("alt_aliases")
    named = [content.get("alias"), *(further if isinstance(further, list) else ())]
    return list(dict.fromkeys(name for name in named if isinstance(name, str)))


def renamed(alias: RoomEvent | None, moved: Iterable[str]) -> dict[str, Any] | None:
    """What the new room says of its names, of those that lead to it now. None if it has none to say."""
    there = set(moved)
    names = [name for name in names_in(alias) if name in there]
    if alias is None or not names:
        return None
    first = alias.content.get("alias")
    said: dict[str, Any] = {"alias": first} if first in names else {}
    further = [name for name in names if name != first]
    return {**said, "alt_aliases": further} if further else said


_TOMBSTONE = ("m.room.tombstone", "")
_JOIN_RULES = ("m.room.join_rules", "")
_ALIAS = (ALIAS, "")

State = Mapping[StateKey, RoomEvent]


class Upgrading(RoomMaking, Sending, Looking):
    async def upgrade_room(
        self,
        room_id: str,
        user: str,
        version: str,
        *,
        additional_creators: Sequence[str] = (),
        also: Collection[str] = (),
    ) -> str:
        """The new room is whole before the old one says that it goes on there. What follows is said once,
        however often this is called: whoever is killed in the middle calls it again."""
        self._refuse_strangers(user)
        old = {(event.type, event.state_key or ""): event for event in await self._parts.rooms.state(room_id)}
        new_room = await self._made_before(user, _key(room_id))
        if new_room is None:
            planning = self._go_on(room_id, old, user, version, additional_creators, also)
            new_room = await self._to_its_end(planning)
        await self._rename(old.get(_ALIAS), room_id, new_room, user)
        closed = old.get(_TOMBSTONE)
        if closed is None or closed.content.get("replacement_room") != new_room:
            await self.set_state(room_id, user, _TOMBSTONE[0], tombstone(new_room))
        await self._lead_on(room_id, new_room, user)
        levels = old.get(POWER_LEVELS)
        if levels is not None:
            quiet = mute_old_room(levels.content, version_of(old.get(CREATE)))
            await self._if_allowed(room_id, user, POWER_LEVELS, quiet)
        return new_room

    # -- the new room --

    async def _go_on(
        self,
        room_id: str,
        old: State,
        user: str,
        version: str,
        additional_creators: Sequence[str],
        also: Collection[str],
    ) -> str:
        key = _key(room_id)
        mark = mark_of(user, key)
        async with self._making(mark):
            known = await self._made_before(user, key)
            if known is not None:
                return known
            _refuse_upgrade(old, user)
            before = OldRoom(room_id, version_of(old.get(CREATE)), old, await self._last_event(room_id))
            planned = plan(
                before, user, version, profile={}, additional_creators=additional_creators, extra_types=also
            )
            listed = await self.is_published(room_id)
            new_room = await self._make_upgraded(moving(planned, user, mark, listed=listed), mark)
            await self._remember_room(user, key, mark, new_room)
        return new_room

    async def _make_upgraded(self, planned: Moving, mark: str) -> str:
        made, user = planned.making, planned.making.creator
        begun = not await self._begin(user, mark)
        new_room = await self._found_begun(made, mark) if begun else None
        if new_room is None:
            try:
                new_room = await self._make(made)
            except MatrixError:
                await self._end(user, mark)
                raise
        for ban in planned.bans:
            if await self._parts.rooms.membership(new_room, ban.state_key or "") != "ban":
                event_id = await self._put_state(new_room, user, ban)
                now = self._parts.now_ms()
                await self._parts.rooms.noted(
                    new_room, MEMBER, ban.state_key or "", user, ban.content, event_id, now
                )
        levels = await self._parts.rooms.state_event(new_room, *POWER_LEVELS)
        if levels is None or levels.content != planned.levels:
            await self._put_state(new_room, user, NewEvent(POWER_LEVELS[0], user, planned.levels, ""))
            await self._parts.rooms.doubt(new_room)
        return new_room

    async def _last_event(self, room_id: str) -> str:
        viewer = await self._viewer(room_id, None)
        if viewer is None:
            raise unknown_room()
        told, _ = await self._stretch(room_id, viewer, None, 1, backwards=True)
        if not told:
            raise unknown_room()
        return told[0].event.event_id

    # -- its names --

    async def _rename(self, alias: RoomEvent | None, old: str, new: str, user: str) -> None:
        """The names that are ours to give lead to the new room, and it says so. Others stay where they are:
        a homeserver lets nobody but whoever gave them take them away."""
        there = await self._parts.client.ask(Method.GET, Path.v3.rooms[old].aliases, user=user)
        listed = there.get("aliases")
        names = [*(listed if isinstance(listed, list) else ()), *names_in(alias)]
        moved = [name for name in dict.fromkeys(names) if isinstance(name, str) and self._is_ours(name)]
        for name in moved:
            found = await self._resolve(name)
            if found is not None and found[0] not in {old, new}:
                continue
            if found is None or found[0] == old:
                await self.remove_alias(name)
                await self.create_alias(name, new, user)
        said = renamed(alias, moved)
        if said is not None and await self._parts.rooms.state_event(new, *_ALIAS) is None:
            await self._if_allowed(new, user, _ALIAS, said)
        if alias is not None and said is not None:
            await self._if_allowed(old, user, _ALIAS, {})
        if await self.is_published(new) and await self.is_published(old):
            await self.publish(old, published=False)

    def _is_ours(self, alias: str) -> bool:
        return self._parts.namespaces.room(alias) is not None

    # -- those that point to the old one --

    async def _lead_on(self, old: str, new: str, user: str) -> None:
        """Spaces list the new room in place of the old one, rooms in an old space name the new one, and rooms
        open to members of the old one are open to those of the new one: as far as the user may say so."""
        for room_id in await self._parts.rooms.joined_rooms(user):
            if room_id in (old, new):
                continue
            for type_ in (CHILD, PARENT):
                pointing = await self._parts.rooms.state_event(room_id, type_, old)
                if pointing is None or not pointing.content:
                    continue
                if await self._if_allowed(room_id, user, (type_, new), pointing.content):
                    await self._if_allowed(room_id, user, (type_, old), {})
            rules = await self._parts.rooms.state_event(room_id, *_JOIN_RULES)
            follows = None if rules is None else with_new_room_allowed(rules.content, old, new)
            if follows is not None:
                await self._if_allowed(room_id, user, _JOIN_RULES, follows)

    async def _if_allowed(self, room_id: str, user: str, key: StateKey, content: Mapping[str, Any]) -> bool:
        """Whether the user might say so."""
        try:
            await self.set_state(room_id, user, key[0], content, key[1])
        except MatrixError as refused:
            if refused.errcode != "M_FORBIDDEN":
                raise
            return False
        return True


def _key(room_id: str) -> str:
    return f"upgrade of {room_id}"


def _refuse_upgrade(old: State, user: str) -> None:
    closed = old.get(_TOMBSTONE)
    if closed is not None and closed.content.get("replacement_room"):
        raise MatrixError("M_FORBIDDEN", "That room goes on in another one already.", 403)
    member = old.get((MEMBER, user))
    if member is None or member.content.get("membership") != "join":
        raise MatrixError("M_FORBIDDEN", f"{user} is not in that room.", 403)
    power = PowerLevels(old.get(CREATE), old.get(POWER_LEVELS), version_of(old.get(CREATE)))
    if power.of_user(user) < power.required_for(_TOMBSTONE[0], is_state=True):
        raise MatrixError("M_FORBIDDEN", f"{user} has not the power to close that room.", 403)
