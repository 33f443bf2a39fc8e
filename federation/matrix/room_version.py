"""Room versions: a record of switches, each version the one before it with changes.

Specification, "Room Versions". Code reads a switch (`version.knocking`) and never compares numbers, so that a
new version of the specification needs only another record here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class RoomVersion:
    """The differences between room versions. The comments name the version that introduced each."""

    id: str

    # -- the form of an event --
    event_id_is_url_safe: bool
    """4: the event id is URL-safe base64 of the reference hash; in 3 it is standard base64."""
    strict_canonical_json: bool
    """6: "Servers MUST enforce that numbers are integers in the range of [−(2^53)+1, (2^53)−1]"."""
    strict_byte_limits: bool
    """11: a field longer than 255 bytes is fatal. Before, the limit that servers enforced was 255 code
    points."""
    create_event_is_room_id: bool
    """12: the room id is the create event's id with another sigil. The create event has no `room_id`, and
    other events do not name it among their `auth_events`."""

    # -- redaction --
    redaction_top_level: frozenset[str]
    """The properties of the event that are kept."""
    redaction_content: Mapping[str, frozenset[str]]
    """The properties of `content` that are kept, by event type. Events of other types keep none."""
    redaction_keeps_create: bool
    """11: `m.room.create` keeps its entire content."""
    redaction_keeps_signed_third_party_invite: bool
    """11: `m.room.member` keeps `third_party_invite.signed`."""
    redacts_in_content: bool
    """11: a redaction names its target in `content.redacts`, no longer at the top level."""

    # -- signing keys --
    enforces_key_validity: bool
    """5: the signing key must have been valid at the event's `origin_server_ts`."""

    # -- authorisation --
    aliases_have_their_own_rule: bool
    """Until 5: `m.room.aliases` is allowed by comparing the sender's domain with the state key."""
    checks_notification_levels: bool
    """6: changing `notifications` in the power levels takes as much power as changing `events` (MSC2209)."""
    knocking: bool
    """7: join rule and membership `knock`."""
    restricted_joins: bool
    """8: join rule `restricted`."""
    knock_restricted_joins: bool
    """10: join rule `knock_restricted`."""
    integer_power_levels: bool
    """10: power levels must be integers; before, strings with an integer were accepted."""
    creator_in_content: bool
    """Until 10: the creator is `content.creator` of the create event, from 11 its sender."""
    creators_have_infinite_power: bool
    """12: the create event's sender and its `additional_creators` have infinite power."""

    # -- state resolution --
    state_resolution_starts_empty: bool
    """12: state resolution v2.1 (MSC4297). It starts from an empty state and replays the conflicted state
    subgraph."""


_TOP_LEVEL_3: Final = frozenset(
    {
        "event_id",
        "type",
        "room_id",
        "sender",
        "state_key",
        "content",
        "hashes",
        "signatures",
        "depth",
        "prev_events",
        "prev_state",
        "auth_events",
        "origin",
        "origin_server_ts",
        "membership",
    }
)
_POWER_LEVELS_3: Final = frozenset(
    {"ban", "events", "events_default", "kick", "redact", "state_default", "users", "users_default"}
)
_CONTENT_3: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "m.room.member": frozenset({"membership"}),
        "m.room.create": frozenset({"creator"}),
        "m.room.join_rules": frozenset({"join_rule"}),
        "m.room.power_levels": _POWER_LEVELS_3,
        "m.room.aliases": frozenset({"aliases"}),
        "m.room.history_visibility": frozenset({"history_visibility"}),
    }
)


def _content(
    before: Mapping[str, frozenset[str]], changes: Mapping[str, frozenset[str]]
) -> Mapping[str, frozenset[str]]:
    """The table of the previous version with some rows replaced; an empty row is removed."""
    return MappingProxyType({type_: keys for type_, keys in {**before, **changes}.items() if keys})


_3: Final = RoomVersion(
    id="3",
    event_id_is_url_safe=False,
    strict_canonical_json=False,
    strict_byte_limits=False,
    create_event_is_room_id=False,
    redaction_top_level=_TOP_LEVEL_3,
    redaction_content=_CONTENT_3,
    redaction_keeps_create=False,
    redaction_keeps_signed_third_party_invite=False,
    redacts_in_content=False,
    enforces_key_validity=False,
    aliases_have_their_own_rule=True,
    checks_notification_levels=False,
    knocking=False,
    restricted_joins=False,
    knock_restricted_joins=False,
    integer_power_levels=False,
    creator_in_content=True,
    creators_have_infinite_power=False,
    state_resolution_starts_empty=False,
)
_4: Final = replace(_3, id="4", event_id_is_url_safe=True)
_5: Final = replace(_4, id="5", enforces_key_validity=True)
_6: Final = replace(
    _5,
    id="6",
    strict_canonical_json=True,
    aliases_have_their_own_rule=False,
    checks_notification_levels=True,
    redaction_content=_content(_5.redaction_content, {"m.room.aliases": frozenset()}),
)
_7: Final = replace(_6, id="7", knocking=True)
_8: Final = replace(
    _7,
    id="8",
    restricted_joins=True,
    redaction_content=_content(_7.redaction_content, {"m.room.join_rules": frozenset({"join_rule", "allow"})}),
)
_9: Final = replace(
    _8,
    id="9",
    redaction_content=_content(
        _8.redaction_content, {"m.room.member": frozenset({"membership", "join_authorised_via_users_server"})}
    ),
)
_10: Final = replace(_9, id="10", integer_power_levels=True, knock_restricted_joins=True)
_11: Final = replace(
    _10,
    id="11",
    strict_byte_limits=True,
    creator_in_content=False,
    redacts_in_content=True,
    redaction_top_level=_10.redaction_top_level - {"prev_state", "origin", "membership"},
    redaction_content=_content(
        _10.redaction_content,
        {"m.room.power_levels": _POWER_LEVELS_3 | {"invite"}, "m.room.redaction": frozenset({"redacts"})},
    ),
    redaction_keeps_create=True,
    redaction_keeps_signed_third_party_invite=True,
)
_12: Final = replace(
    _11, id="12", create_event_is_room_id=True, creators_have_infinite_power=True, state_resolution_starts_empty=True
)

ROOM_VERSIONS: Final[Mapping[str, RoomVersion]] = MappingProxyType(
    {version.id: version for version in (_3, _4, _5, _6, _7, _8, _9, _10, _11, _12)}
)
"""The supported versions. Versions 1 and 2, in which servers choose event ids, are not supported: requests
for them get M_INCOMPATIBLE_ROOM_VERSION."""

DEFAULT_ROOM_VERSION: Final = _12
"""The version that the specification recommends for new rooms since v1.16."""


def room_version(identifier: object) -> RoomVersion | None:
    """The version with this id, or None if it is not supported."""
    return ROOM_VERSIONS.get(identifier) if isinstance(identifier, str) else None


def version_of_create_event(content: Mapping[str, object]) -> object:
    """The room version in the content of a create event, which may be malformed. The default is `"1"`."""
    return content.get("room_version", "1")
