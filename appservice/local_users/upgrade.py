"""Upgrades rooms: creates the replacement and closes the old room.

It follows the same steps as a node that is a homeserver itself, because a homeserver's own upgrade decides
for itself what it copies.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mautrix.api import Method, Path

from appservice.local_users.create_room import RoomCreation, RoomPlan, create_room_body, room_mark, version_of
from appservice.local_users.lookups import RoomViewing
from appservice.local_users.parts import MEMBER, unknown_room
from appservice.local_users.sending import Sending
from federation.auth_rules.auth_event_selection import POWER_LEVELS
from federation.auth_rules.levels import PowerLevels
from federation.events import CREATE, StateKey
from federation.events.room_event import NewEvent, RoomEvent
from federation.events.spaces import CHILD, PARENT
from federation.matrix.errors import MatrixError
from federation.rooms.upgrade import OldRoom, UpgradePlan, mute_old_room, plan, tombstone, with_new_room_allowed

ALIAS: Final = "m.room.canonical_alias"
_CREATE: Final = "m.room.create"
_MEMBER: Final = "m.room.member"
_POWER_LEVELS: Final = "m.room.power_levels"


@dataclass(frozen=True, slots=True)
class UpgradeSteps:
    """First the room is created, then its bans are set, and finally its power levels."""

    room_plan: RoomPlan
    bans: tuple[NewEvent, ...]
    levels: Mapping[str, Any]


def upgrade_steps(planned: UpgradePlan, user: str, mark: str, *, listed: bool) -> UpgradeSteps:
    """The aliases of the old room move once the new one exists."""
    create = next(event for event in planned.events if event.type == _CREATE)
    levels = [event for event in planned.events if event.type == _POWER_LEVELS]
    excluded = {_CREATE, _MEMBER, _POWER_LEVELS, ALIAS}
    state = tuple(event for event in planned.events if event.type not in excluded)
    bans = tuple(
        event for event in planned.events if event.type == _MEMBER and event.content.get("membership") == "ban"
    )
    body = create_room_body(planned.version, create, levels[0], state, mark, listed=listed)
    return UpgradeSteps(RoomPlan(user, body, None, levels[0].content, state), bans, levels[-1].content)


def aliases_in(alias: RoomEvent | None) -> list[str]:
    """The aliases in a canonical alias event, the canonical one first."""
    content = {} if alias is None else alias.content
    alternatives = content.get("alt_aliases")
    named = [content.get("alias"), *(alternatives if isinstance(alternatives, list) else ())]
    return list(dict.fromkeys(name for name in named if isinstance(name, str)))


def new_canonical_alias(alias: RoomEvent | None, moved: Iterable[str]) -> dict[str, Any] | None:
    """The content of the new room's canonical alias event, with the aliases that now resolve to it. None if
    there are none."""
    moved_aliases = set(moved)
    names = [name for name in aliases_in(alias) if name in moved_aliases]
    if alias is None or not names:
        return None
    first = alias.content.get("alias")
    content: dict[str, Any] = {"alias": first} if first in names else {}
    alternatives = [name for name in names if name != first]
    return {**content, "alt_aliases": alternatives} if alternatives else content


_TOMBSTONE = ("m.room.tombstone", "")
_JOIN_RULES = ("m.room.join_rules", "")
_ALIAS = (ALIAS, "")

State = Mapping[StateKey, RoomEvent]


class RoomUpgrades(RoomCreation, Sending, RoomViewing):
    async def upgrade_room(
        self,
        room_id: str,
        user: str,
        version: str,
        *,
        additional_creators: Sequence[str] = (),
        also: Collection[str] = (),
    ) -> str:
        """The new room is complete before the old one refers to it. Each following step happens once,
        however often this is called: after a kill it is called again."""
        self._require_ghost(user)
        old = {(event.type, event.state_key or ""): event for event in await self._parts.rooms.state(room_id)}
        new_room = await self._created_before(user, _key(room_id))
        if new_room is None:
            creation = self._create_replacement(room_id, old, user, version, additional_creators, also)
            new_room = await self._run_to_completion(creation)
        await self._move_aliases(old.get(_ALIAS), room_id, new_room, user)
        closed = old.get(_TOMBSTONE)
        if closed is None or closed.content.get("replacement_room") != new_room:
            await self.set_state(room_id, user, _TOMBSTONE[0], tombstone(new_room))
        await self._redirect_references(room_id, new_room, user)
        levels = old.get(POWER_LEVELS)
        if levels is not None:
            quiet = mute_old_room(levels.content, version_of(old.get(CREATE)))
            await self._set_state_if_allowed(room_id, user, POWER_LEVELS, quiet)
        return new_room

    # -- the new room --

    async def _create_replacement(
        self,
        room_id: str,
        old: State,
        user: str,
        version: str,
        additional_creators: Sequence[str],
        also: Collection[str],
    ) -> str:
        key = _key(room_id)
        mark = room_mark(user, key)
        async with self._creation_lock(mark):
            known = await self._created_before(user, key)
            if known is not None:
                return known
            _refuse_upgrade(old, user)
            old_room = OldRoom(room_id, version_of(old.get(CREATE)), old, await self._last_event(room_id))
            planned = plan(
                old_room, user, version, profile={}, additional_creators=additional_creators, extra_types=also
            )
            listed = await self.is_published(room_id)
            new_room = await self._create_upgraded(upgrade_steps(planned, user, mark, listed=listed), mark)
            await self._record_created(user, key, mark, new_room)
        return new_room

    async def _create_upgraded(self, planned: UpgradeSteps, mark: str) -> str:
        room_plan, user = planned.room_plan, planned.room_plan.creator
        begun = not await self._record_intent(user, mark)
        new_room = await self._resume_creation(room_plan, mark) if begun else None
        if new_room is None:
            try:
                new_room = await self._create(room_plan)
            except MatrixError:
                await self._delete_intent(user, mark)
                raise
        for ban in planned.bans:
            if await self._parts.rooms.membership(new_room, ban.state_key or "") != "ban":
                event_id = await self._put_state(new_room, user, ban)
                now = self._parts.now_ms()
                await self._parts.rooms.record_change(
                    new_room, MEMBER, ban.state_key or "", user, ban.content, event_id, now
                )
        levels = await self._parts.rooms.state_event(new_room, *POWER_LEVELS)
        if levels is None or levels.content != planned.levels:
            await self._put_state(new_room, user, NewEvent(POWER_LEVELS[0], user, planned.levels, ""))
            await self._parts.rooms.invalidate(new_room)
        return new_room

    async def _last_event(self, room_id: str) -> str:
        viewer = await self._viewer(room_id, None)
        if viewer is None:
            raise unknown_room()
        newest, _ = await self._fetch_events(room_id, viewer, None, 1, backwards=True)
        if not newest:
            raise unknown_room()
        return newest[0].event.event_id

    # -- aliases --

    async def _move_aliases(self, alias: RoomEvent | None, old: str, new: str, user: str) -> None:
        """Move the aliases of this node's namespace to the new room and set its canonical alias. Other
        aliases stay: a homeserver lets only their creators remove them."""
        response = await self._parts.client.request(Method.GET, Path.v3.rooms[old].aliases, user=user)
        listed = response.get("aliases")
        names = [*(listed if isinstance(listed, list) else ()), *aliases_in(alias)]
        moved = [name for name in dict.fromkeys(names) if isinstance(name, str) and self._is_ours(name)]
        for name in moved:
            found = await self._resolve(name)
            if found is not None and found[0] not in {old, new}:
                continue
            if found is None or found[0] == old:
                await self.remove_alias(name)
                await self.create_alias(name, new, user)
        content = new_canonical_alias(alias, moved)
        if content is not None and await self._parts.rooms.state_event(new, *_ALIAS) is None:
            await self._set_state_if_allowed(new, user, _ALIAS, content)
        if alias is not None and content is not None:
            await self._set_state_if_allowed(old, user, _ALIAS, {})
        if await self.is_published(new) and await self.is_published(old):
            await self.publish(old, published=False)

    def _is_ours(self, alias: str) -> bool:
        return self._parts.namespaces.room(alias) is not None

    # -- references to the old room --

    async def _redirect_references(self, old: str, new: str, user: str) -> None:
        """As far as the user may: spaces list the new room instead of the old one, rooms name the new space,
        and rooms restricted to members of the old room admit members of the new one."""
        for room_id in await self._parts.rooms.joined_rooms(user):
            if room_id in (old, new):
                continue
            for type_ in (CHILD, PARENT):
                pointing = await self._parts.rooms.state_event(room_id, type_, old)
                if pointing is None or not pointing.content:
                    continue
                if await self._set_state_if_allowed(room_id, user, (type_, new), pointing.content):
                    await self._set_state_if_allowed(room_id, user, (type_, old), {})
            rules = await self._parts.rooms.state_event(room_id, *_JOIN_RULES)
            follows = None if rules is None else with_new_room_allowed(rules.content, old, new)
            if follows is not None:
                await self._set_state_if_allowed(room_id, user, _JOIN_RULES, follows)

    async def _set_state_if_allowed(self, room_id: str, user: str, key: StateKey, content: Mapping[str, Any]) -> bool:
        """Return whether the user was allowed to."""
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
        raise MatrixError("M_FORBIDDEN", "That room was already upgraded.", 403)
    member = old.get((MEMBER, user))
    if member is None or member.content.get("membership") != "join":
        raise MatrixError("M_FORBIDDEN", f"{user} is not in that room.", 403)
    power = PowerLevels(old.get(CREATE), old.get(POWER_LEVELS), version_of(old.get(CREATE)))
    if power.of_user(user) < power.required_for(_TOMBSTONE[0], is_state=True):
        raise MatrixError("M_FORBIDDEN", f"{user} does not have the power level to upgrade that room.", 403)
