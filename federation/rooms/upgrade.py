"""The events of a room upgrade: the new room, the tombstone, the old room's power levels. Client-server API,
"Room Upgrades"."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federation.auth_rules.auth_event_selection import POWER_LEVELS
from federation.auth_rules.levels import StateEvent, creators, read_level
from federation.events import CREATE, EventId, StateKey
from federation.events.room_event import NewEvent
from federation.events.spaces import CHILD, PARENT, is_child
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import is_user_id
from federation.matrix.room_version import RoomVersion
from federation.rooms.creation import TOMBSTONE_LEVEL, new_room_version

COPIED: Final = (
    "m.room.join_rules",
    "m.room.history_visibility",
    "m.room.guest_access",
    "m.room.name",
    "m.room.topic",
    "m.room.avatar",
    "m.room.server_acl",
    "m.room.canonical_alias",
    CHILD,
    PARENT,
)
"""State that is copied, besides power levels and bans. Not m.room.encryption: rooms of this server are not
encrypted."""
_NEVER_COPIED: Final = {
    "m.room.create",
    "m.room.member",
    "m.room.power_levels",
    "m.room.tombstone",
    "m.room.encryption",
}
_LEVELS: Final = ("users_default", "events_default", "state_default", "ban", "redact", "kick", "invite")
_FULL_POWER: Final = 100
_MUTED: Final = 50


@dataclass(frozen=True, slots=True)
class OldRoom:
    """The room to upgrade. `last_event` is its newest known event."""

    room_id: str
    version: RoomVersion
    state: Mapping[StateKey, StateEvent]
    last_event: EventId


@dataclass(frozen=True, slots=True)
class UpgradePlan:
    version: RoomVersion
    events: tuple[NewEvent, ...]


def plan(
    old: OldRoom,
    user: str,
    version: str,
    *,
    profile: Mapping[str, Any],
    additional_creators: Sequence[str] = (),
    extra_types: Collection[str] = (),
) -> UpgradePlan:
    """Plan the events of the new room. MatrixError if the request is invalid.

    `profile` is for the user's member event. `extra_types` are state event types that are copied besides
    COPIED.
    """
    new = new_room_version(version)
    if additional_creators and not new.creators_have_infinite_power:
        raise _invalid(f"Rooms of version {new.id} have no additional_creators.")
    if not all(map(is_user_id, additional_creators)):
        raise _invalid("additional_creators must be user ids.")
    if not _NEVER_COPIED.isdisjoint(extra_types):
        raise _invalid(f"{min(_NEVER_COPIED.intersection(extra_types))} cannot be copied.")
    new_creators = {user, *additional_creators} if new.creators_have_infinite_power else set()
    levels = _new_levels(old, user, new, new_creators)
    events = [
        NewEvent("m.room.create", user, _create(old, new, user, additional_creators), ""),
        NewEvent("m.room.member", user, {**profile, "membership": "join"}, user),
    ]
    if new.creators_have_infinite_power:
        events.append(NewEvent("m.room.power_levels", user, levels, ""))
        events += _copied(old, user, extra_types)
    else:
        # The upgrading user may not have the power to set all of the state, and gets it until the state is
        # copied.
        temporary = {"users": {user: _highest(levels)}}
        events.append(NewEvent("m.room.power_levels", user, temporary, ""))
        events += _copied(old, user, extra_types)
        events.append(NewEvent("m.room.power_levels", user, levels, ""))
    return UpgradePlan(new, tuple(events))


def tombstone(new_room: str) -> dict[str, Any]:
    return {"body": "This room has been replaced.", "replacement_room": new_room}


def mute_old_room(content: Mapping[str, Any], version: RoomVersion) -> dict[str, Any]:
    """The power levels that restrict speaking in the old room: "setting `events_default` and `invite` to the
    greater of `50` and `users_default + 1`", and likewise the levels of single event types."""
    least = max(_MUTED, (read_level(content.get("users_default"), version) or 0) + 1)

    def raised(value: object) -> int:
        return max(least, read_level(value, version) or 0)

    events = content.get("events")
    by_type = {type_: raised(level) for type_, level in events.items()} if isinstance(events, dict) else {}
    return {
        **content,
        "events_default": raised(content.get("events_default")),
        "invite": raised(content.get("invite")),
        "events": by_type,
    }


def with_new_room_allowed(content: Mapping[str, Any], old_room: str, new_room: str) -> dict[str, Any] | None:
    """The join rules of a third room that allows members of the old room to join, changed to allow members of
    the new room as well. None if they need no change."""
    allow = content.get("allow")
    if not isinstance(allow, list):
        return None
    named = [one.get("room_id") for one in allow if isinstance(one, dict)]
    if old_room not in named or new_room in named:
        return None
    return {**content, "allow": [*allow, {"type": "m.room_membership", "room_id": new_room}]}


# -- the new room --


def _create(old: OldRoom, new: RoomVersion, user: str, additional: Sequence[str]) -> dict[str, Any]:
    before = old.state[CREATE].content
    # "`additional_creators` are not copied", nor are the fields that the server sets.
    content = {
        name: value
        for name, value in before.items()
        if name not in {"room_version", "creator", "predecessor", "additional_creators"}
    }
    content["predecessor"] = {"room_id": old.room_id}
    if not new.create_event_is_room_id:
        # "event_id: The event ID of the last known event in the old room, if known." In version 12 the create
        # event comes before the tombstone that points to it, and no client looks for an event id there.
        content["predecessor"]["event_id"] = old.last_event
    others = [one for one in dict.fromkeys(additional) if one != user]
    if others:
        content["additional_creators"] = others
    return content


def _new_levels(old: OldRoom, user: str, new: RoomVersion, new_creators: Collection[str]) -> dict[str, Any]:
    """The power levels of the old room, in the format of the new room's version."""
    current = old.state.get(POWER_LEVELS)
    content = _as_integers(current.content if current is not None else {}, old.version)
    users: dict[str, int] = content.get("users", {})
    if old.version.creators_have_infinite_power or current is None:
        # Creators of the old room who do not create the new one get the highest level that is in use.
        for creator in creators(old.state[CREATE], old.version):
            users.setdefault(creator, _highest(content))
    content["users"] = {one: level for one, level in users.items() if one not in new_creators}
    if new.creators_have_infinite_power:
        events = content.get("events", {})
        level = max(events.get("m.room.tombstone", 0), TOMBSTONE_LEVEL)
        content["events"] = {**events, "m.room.tombstone": level}
    return content


def _as_integers(content: Mapping[str, Any], version: RoomVersion) -> dict[str, Any]:
    """Power levels as integers, as versions from 10 on require. Up to version 9 other formats, such as
    strings, were allowed."""
    read: dict[str, Any] = {}
    for name in _LEVELS:
        level = read_level(content.get(name), version)
        if level is not None:
            read[name] = level
    for name in ("users", "events", "notifications"):
        entries = content.get(name)
        if isinstance(entries, dict):
            levels = {key: read_level(level, version) for key, level in entries.items()}
            read[name] = {key: level for key, level in levels.items() if level is not None}
    return read


def _highest(levels: Mapping[str, Any]) -> int:
    single = [levels[name] for name in _LEVELS if name in levels]
    listed = [level for name in ("users", "events", "notifications") for level in levels.get(name, {}).values()]
    return int(max([_FULL_POWER, *single, *listed]))


def _copied(old: OldRoom, user: str, extra_types: Collection[str]) -> Iterator[NewEvent]:
    types = [*COPIED, *sorted(set(extra_types) - set(COPIED))]
    for (type_, key), entry in sorted(old.state.items(), key=lambda one: one[0]):
        if type_ in types and entry.content and (type_ not in (CHILD, PARENT) or is_child(entry.content)):
            # State with a user id as its state key can only be set by that user.
            if key.startswith("@") and key != user:
                continue
            yield NewEvent(type_, user, entry.content, key)
        elif type_ == "m.room.member" and entry.content.get("membership") == "ban":
            reason = entry.content.get("reason")
            given = {"reason": reason} if isinstance(reason, str) else {}
            yield NewEvent(type_, user, {**given, "membership": "ban"}, key)


def _invalid(text: str) -> MatrixError:
    return MatrixError("M_INVALID_PARAM", text, 400)
