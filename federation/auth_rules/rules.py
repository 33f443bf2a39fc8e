"""The texts of the authorisation rules, for all room versions.

A rule that only some versions have says which. The rules that apply are numbered as on the page of the
version: the same rule is 4.3.2 in version 11 and 5.3.2 in version 12. Code refers to a rule by its key;
comments quote the number of version 12.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from federation.auth_rules.verdict import Refused
from federation.matrix.room_version import ROOM_VERSIONS, RoomVersion


@dataclass(frozen=True, slots=True)
class Rule:
    """One numbered sentence. A sentence without key never rejects: it only contains others, or allows."""

    key: str
    text: str
    parts: tuple["Rule", ...] = ()
    applies: Callable[[RoomVersion], bool] = lambda _: True


def _rule(key: str, text: str, *parts: Rule, when: Callable[[RoomVersion], bool] = lambda _: True) -> Rule:
    return Rule(key, text, parts, when)


def _text(text: str, *parts: Rule, when: Callable[[RoomVersion], bool] = lambda _: True) -> Rule:
    return Rule("", text, parts, when)


_OTHERWISE_ALLOW: Final = _text("Otherwise, allow.")

_CREATE: Final = _text(
    "If type is m.room.create:",
    _rule("create.prev_events", "If it has any prev_events, reject."),
    _rule(
        "create.room_id_domain",
        "If the domain of the room_id does not match the domain of the sender, reject.",
        when=lambda version: not version.create_event_is_room_id,
    ),
    _rule(
        "create.room_id", "If the event has a room_id, reject.", when=lambda version: version.create_event_is_room_id
    ),
    _rule("create.room_version", "If content.room_version is present and is not a recognised version, reject."),
    _rule(
        "create.creator", "If content has no creator property, reject.", when=lambda version: version.creator_in_content
    ),
    _rule(
        "create.additional_creators",
        "If additional_creators is present in content and is not an array of strings where each string passes"
        " the same user ID validation applied to sender, reject.",
        when=lambda version: version.creators_have_infinite_power,
    ),
    _OTHERWISE_ALLOW,
)

_ROOM_ID: Final = _rule(
    "room_id",
    "If the event's room_id is not an event ID for an accepted (not rejected) m.room.create event, with the"
    " sigil ! instead of $, reject.",
    when=lambda version: version.create_event_is_room_id,
)

_AUTH_EVENTS: Final = _text(
    "Considering the event's auth_events:",
    _rule("auth_events.duplicate", "If there are duplicate entries for a given type and state_key pair, reject."),
    _rule(
        "auth_events.unexpected",
        "If there are entries whose type and state_key don't match those specified by the auth events selection"
        " algorithm described in the server specification, reject.",
    ),
    _rule(
        "auth_events.rejected",
        "If there are entries which were themselves rejected under the checks performed on receipt of a PDU, reject.",
    ),
    _rule(
        "auth_events.create",
        "If there is no m.room.create event among the entries, reject.",
        when=lambda version: not version.create_event_is_room_id,
    ),
    _rule(
        "auth_events.room_id",
        "If any event in auth_events has a room_id which does not match that of the event being authorised, reject.",
    ),
)

_FEDERATE: Final = _rule(
    "federate",
    "If the content of the m.room.create event in the room state has the property m.federate set to false, and"
    " the sender domain of the event does not match the sender domain of the create event, reject.",
)

_ALIASES: Final = _text(
    "If type is m.room.aliases:",
    _rule("aliases.state_key", "If event has no state_key, reject."),
    _rule("aliases.domain", "If sender's domain doesn't matches state_key, reject."),
    _OTHERWISE_ALLOW,
    when=lambda version: version.aliases_have_their_own_rule,
)

_JOIN: Final = _text(
    "If membership is join:",
    _text("If the only previous event is an m.room.create and the state_key is the creator, allow."),
    _rule("join.sender", "If the sender does not match state_key, reject."),
    _rule("join.banned", "If the sender is banned, reject."),
    _text("If the join_rule is invite or knock then allow if membership state is invite or join."),
    _text(
        "If the join_rule is restricted or knock_restricted:",
        _text("If membership state is join or invite, allow."),
        _rule(
            "join.authoriser",
            "If the join_authorised_via_users_server key in content is not a user with sufficient permission to"
            " invite other users, reject.",
        ),
        _OTHERWISE_ALLOW,
        when=lambda version: version.restricted_joins,
    ),
    _text("If the join_rule is public, allow."),
    _rule("join.otherwise", "Otherwise, reject."),
)

_THIRD_PARTY: Final = _text(
    "If content has a third_party_invite property:",
    _rule("third_party.banned", "If target user is banned, reject."),
    _rule("third_party.signed", "If content.third_party_invite does not have a signed property, reject."),
    _rule("third_party.properties", "If signed does not have mxid and token properties, reject."),
    _rule("third_party.mxid", "If mxid does not match state_key, reject."),
    _rule(
        "third_party.token",
        "If there is no m.room.third_party_invite event in the current room state with state_key matching token,"
        " reject.",
    ),
    _rule("third_party.sender", "If sender does not match sender of the m.room.third_party_invite, reject."),
    _text(
        "If any signature in signed matches any public key in the m.room.third_party_invite event, allow.",
        _text("A single public key in the public_key property."),
        _text("A list of public keys in the public_keys property."),
    ),
    _rule("third_party.otherwise", "Otherwise, reject."),
)

_INVITE: Final = _text(
    "If membership is invite:",
    _THIRD_PARTY,
    _rule("invite.sender", "If the sender's current membership state is not join, reject."),
    _rule("invite.target", "If target user's current membership state is join or ban, reject."),
    _text("If the sender's power level is greater than or equal to the invite level, allow."),
    _rule("invite.otherwise", "Otherwise, reject."),
)

_LEAVE: Final = _text(
    "If membership is leave:",
    _rule(
        "leave.self",
        "If the sender matches state_key, allow if and only if that user's current membership state is invite,"
        " join, or knock.",
    ),
    _rule("leave.sender", "If the sender's current membership state is not join, reject."),
    _rule(
        "leave.unban",
        "If the target user's current membership state is ban, and the sender's power level is less than the ban"
        " level, reject.",
    ),
    _text(
        "If the sender's power level is greater than or equal to the kick level, and the target user's power"
        " level is less than the sender's power level, allow."
    ),
    _rule("leave.otherwise", "Otherwise, reject."),
)

_BAN: Final = _text(
    "If membership is ban:",
    _rule("ban.sender", "If the sender's current membership state is not join, reject."),
    _text(
        "If the sender's power level is greater than or equal to the ban level, and the target user's power"
        " level is less than the sender's power level, allow."
    ),
    _rule("ban.otherwise", "Otherwise, reject."),
)

_KNOCK: Final = _text(
    "If membership is knock:",
    _rule(
        "knock.join_rule",
        "If the join_rule is anything other than knock, reject.",
        when=lambda version: not version.knock_restricted_joins,
    ),
    _rule(
        "knock.join_rule",
        "If the join_rule is anything other than knock or knock_restricted, reject.",
        when=lambda version: version.knock_restricted_joins,
    ),
    _rule("knock.sender", "If sender does not match state_key, reject."),
    _text("If the sender's current membership is not ban, invite, or join, allow."),
    _rule("knock.otherwise", "Otherwise, reject."),
    when=lambda version: version.knocking,
)

_MEMBER: Final = _text(
    "If type is m.room.member:",
    _rule("member.properties", "If there is no state_key property, or no membership property in content, reject."),
    _text(
        "If content has a join_authorised_via_users_server key:",
        _rule(
            "member.authoriser_signature",
            "If the event is not validly signed by the homeserver of the user ID denoted by the key, reject.",
        ),
        when=lambda version: version.restricted_joins,
    ),
    _JOIN,
    _INVITE,
    _LEAVE,
    _BAN,
    _KNOCK,
    _rule("member.unknown", "Otherwise, the membership is unknown. Reject."),
)

_POWER_LEVELS: Final = _text(
    "If type is m.room.power_levels:",
    _rule(
        "levels.integers",
        "If any of the properties users_default, events_default, state_default, ban, redact, kick, or invite in"
        " content are present and not an integer, reject.",
        when=lambda version: version.integer_power_levels,
    ),
    _rule(
        "levels.maps",
        "If either of the properties events or notifications in content are present and not an object with"
        " values that are integers, reject.",
        when=lambda version: version.integer_power_levels,
    ),
    _rule(
        "levels.users",
        "If the users property in content is not an object with keys that are valid user IDs with values that"
        " are integers, reject.",
    ),
    _rule(
        "levels.creators",
        "If the users property in content contains the sender of the m.room.create event or any of the"
        " additional_creators array (if present) from the content of the m.room.create event, reject.",
        when=lambda version: version.creators_have_infinite_power,
    ),
    _text("If there is no previous m.room.power_levels event in the room, allow."),
    _text(
        "For the properties users_default, events_default, state_default, ban, redact, kick, invite check if"
        " they were added, changed or removed. For each found alteration:",
        _rule(
            "levels.property.current", "If the current value is higher than the sender's current power level, reject."
        ),
        _rule("levels.property.new", "If the new value is higher than the sender's current power level, reject."),
    ),
    _text(
        "For each entry being changed in, or removed from, the events or notifications properties:",
        _rule("levels.event.current", "If the current value is greater than the sender's current power level, reject."),
    ),
    _text(
        "For each entry being added to, or changed in, the events or notifications properties:",
        _rule("levels.event.new", "If the new value is greater than the sender's current power level, reject."),
    ),
    _text(
        "For each entry being changed in, or removed from, the users property, other than the sender's own entry:",
        _rule(
            "levels.user.current",
            "If the current value is greater than or equal to the sender's current power level, reject.",
        ),
    ),
    _text(
        "For each entry being added to, or changed in, the users property:",
        _rule("levels.user.new", "If the new value is greater than the sender's current power level, reject."),
    ),
    _OTHERWISE_ALLOW,
)

RULES: Final[Sequence[Rule]] = (
    _CREATE,
    _ROOM_ID,
    _AUTH_EVENTS,
    _FEDERATE,
    _ALIASES,
    _MEMBER,
    _rule("sender_joined", "If the sender's current membership state is not join, reject."),
    _text(
        "If type is m.room.third_party_invite:",
        _rule(
            "third_party_invite.level",
            "Allow if and only if sender's current power level is greater than or equal to the invite level.",
        ),
    ),
    _rule(
        "required_power", "If the event type's required power level is greater than the sender's power level, reject."
    ),
    _rule(
        "state_key_of_another",
        "If the event has a state_key that starts with an @ and does not match the sender, reject.",
    ),
    _POWER_LEVELS,
    _OTHERWISE_ALLOW,
)


def _numbered(rules: Sequence[Rule], version: RoomVersion, prefix: str = "") -> Iterator[tuple[str, Refused]]:
    for number, rule in enumerate((rule for rule in rules if rule.applies(version)), start=1):
        if rule.key:
            yield rule.key, Refused(f"{prefix}{number}", rule.text)
        yield from _numbered(rule.parts, version, f"{prefix}{number}.")


REFUSALS: Final[Mapping[str, Mapping[str, Refused]]] = MappingProxyType(
    {version.id: MappingProxyType(dict(_numbered(RULES, version))) for version in ROOM_VERSIONS.values()}
)
"""The refusals with the number and text of the rule, by room version and key."""


def refuse(version: RoomVersion, key: str, detail: str = "") -> Refused:
    """The refusal by this rule. KeyError means that the room version does not have this rule, which is a
    bug."""
    refused = REFUSALS[version.id][key]
    return Refused(refused.rule, refused.text, detail) if detail else refused
