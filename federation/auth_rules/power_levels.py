"""Rule 10: changes of the power levels."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from federation.auth_rules.levels import Level, creators, read_level
from federation.auth_rules.room_state import RoomState
from federation.auth_rules.rules import refuse
from federation.auth_rules.verdict import ALLOWED, Refused, Verdict
from federation.events import Pdu
from federation.matrix.identifiers import looks_like_user_id
from federation.matrix.room_version import RoomVersion

_PROPERTIES: Final = ("users_default", "events_default", "state_default", "ban", "redact", "kick", "invite")
_MAPS: Final = ("events", "notifications")
_UNREADABLE: Final = float("inf")


def check_power_levels(pdu: Pdu, state: RoomState) -> Verdict:
    # A message event of this type would be harmless, but Synapse cannot handle it, nor the local events that
    # would follow it.
    if pdu.state_key is None:
        return refuse(state.version, "levels.users", "it is not a state event")
    form = _check_form(pdu.content, state)
    if isinstance(form, Refused):
        return form
    # 10.5 If there is no previous `m.room.power_levels` event in the room, allow.
    #
    # That is the event with the same state key. Power levels with a non-empty state key are never in force,
    # nor auth events, so only their format is checked, as in Synapse.
    previous = state.event("m.room.power_levels", "") if pdu.state_key == "" else None
    if previous is None:
        return ALLOWED
    # 10.11 Otherwise, allow.
    return next(_refusals(previous.content, pdu.content, pdu.sender, state), ALLOWED)


def _check_form(content: Mapping[str, Any], state: RoomState) -> Verdict:
    version = state.version
    refused = (_check_integers if version.integer_power_levels else _check_readable)(content, version)
    if isinstance(refused, Refused):
        return refused
    # 10.3 If the `users` property in `content` is not an object with keys that are valid user IDs with
    # values that are integers, reject.
    users = content.get("users", {})
    if not isinstance(users, dict) or not all(
        looks_like_user_id(user) and read_level(level, version) is not None for user, level in users.items()
    ):
        return refuse(version, "levels.users")
    # 10.4 (12) If the `users` property in `content` contains the `sender` of the `m.room.create` event or
    # any of the `additional_creators` array (if present) from the `content` of the `m.room.create` event,
    # reject.
    if version.creators_have_infinite_power and not creators(state.create, version).isdisjoint(users):
        return refuse(version, "levels.creators")
    return ALLOWED


def _check_integers(content: Mapping[str, Any], version: RoomVersion) -> Verdict:
    # 10.1 If any of the properties `users_default`, `events_default`, `state_default`, `ban`, `redact`,
    # `kick`, or `invite` in `content` are present and not an integer, reject.
    for name in _PROPERTIES:
        if name in content and read_level(content[name], version) is None:
            return refuse(version, "levels.integers", name)
    # 10.2 If either of the properties `events` or `notifications` in `content` are present and not an
    # object with values that are integers, reject.
    for name in _MAPS:
        entries = content.get(name, {})
        if not isinstance(entries, dict) or not all(
            read_level(level, version) is not None for level in entries.values()
        ):
            return refuse(version, "levels.maps", name)
    return ALLOWED


def _check_readable(content: Mapping[str, Any], version: RoomVersion) -> Verdict:
    """Until room version 9 no rule requires this. But an invalid level, once in force, makes every later
    event of the room fail on servers that parse levels with Python's `int`, so it is rejected. `null` counts
    as absent, as on those servers."""
    for name in _PROPERTIES:
        if content.get(name) is not None and read_level(content[name], version) is None:
            return refuse(version, "levels.users", f"{name} is invalid")
    for name in _MAPS if version.checks_notification_levels else ("events",):
        entries = content.get(name, {})
        if not isinstance(entries, dict) or any(
            level is not None and read_level(level, version) is None for level in entries.values()
        ):
            return refuse(version, "levels.users", f"{name} is invalid")
    return ALLOWED


def _refusals(current: Mapping[str, Any], new: Mapping[str, Any], sender: str, state: RoomState) -> Iterator[Refused]:
    """A refusal for each alteration for which the sender does not have enough power."""
    version, power = state.version, state.levels.of_user(sender)
    # 10.6 For the properties `users_default`, `events_default`, `state_default`, `ban`, `redact`, `kick`,
    # `invite` check if they were added, changed or removed. For each found alteration:
    for name, before, after in _alterations(
        {name: current[name] for name in _PROPERTIES if name in current},
        {name: new[name] for name in _PROPERTIES if name in new},
        version,
    ):
        # 10.6.1 If the current value is higher than the `sender`'s current power level, reject.
        if before is not None and before > power:
            yield refuse(version, "levels.property.current", name)
        # 10.6.2 If the new value is higher than the `sender`'s current power level, reject.
        if after is not None and after > power:
            yield refuse(version, "levels.property.new", name)
    # (From version 6 on `notifications` is treated as `events` is.)
    for map_name in _MAPS if version.checks_notification_levels else ("events",):
        for name, before, after in _alterations(_map(current, map_name), _map(new, map_name), version):
            # 10.7.1 If the current value is greater than the `sender`'s current power level, reject.
            if before is not None and before > power:
                yield refuse(version, "levels.event.current", name)
            # 10.8.1 If the new value is greater than the `sender`'s current power level, reject.
            if after is not None and after > power:
                yield refuse(version, "levels.event.new", name)
    for name, before, after in _alterations(_map(current, "users"), _map(new, "users"), version):
        # 10.9 For each entry being changed in, or removed from, the `users` property, other than the
        # `sender`'s own entry: 10.9.1 If the current value is greater than or equal to the `sender`'s
        # current power level, reject.
        if before is not None and before >= power and name != sender:
            yield refuse(version, "levels.user.current", name)
        # 10.10.1 If the new value is greater than the `sender`'s current power level, reject.
        if after is not None and after > power:
            yield refuse(version, "levels.user.new", name)


def _alterations(
    current: Mapping[str, Any], new: Mapping[str, Any], version: RoomVersion
) -> Iterator[tuple[str, Level | None, Level | None]]:
    """The entries added, changed or removed: name, value before and value after, None if absent.

    Two notations of the same number are no change. An invalid value counts as higher than every user's level:
    Synapse drops such a change with an error.
    """
    for name in {**current, **new}:
        before = _reading(current[name], version) if name in current else None
        after = _reading(new[name], version) if name in new else None
        if before != after or before == _UNREADABLE:
            yield name, before, after


def _reading(value: object, version: RoomVersion) -> Level:
    level = read_level(value, version)
    return _UNREADABLE if level is None else level


def _map(content: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    entries = content.get(name)
    return entries if isinstance(entries, dict) else {}
