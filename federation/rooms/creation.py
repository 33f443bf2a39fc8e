"""The initial events of a new room, planned from the request. Client-server API, `POST /createRoom`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from federation.events import StateKey
from federation.events.room_event import NewEvent
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain, is_room_alias, is_room_id, is_user_id
from federation.matrix.room_version import DEFAULT_ROOM_VERSION, RoomVersion, room_version

Preset = Literal["private_chat", "trusted_private_chat", "public_chat"]
"""`private_chat`: join by invite. `trusted_private_chat`: the same, and the invited users get the creator's
power level. `public_chat`: anyone may join."""


@dataclass(frozen=True, slots=True)
class InitialState:
    type: str
    content: Mapping[str, Any]
    state_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRoomRequest:
    """A request to create a room. Fields that are None or empty are set by the preset.

    `alias` and `room_id` are localparts. `room_id` is for versions up to 11, in which the server chooses the
    room id; it needs `BackendCapability.ROOM_IDS`. `listed` publishes the room in the room directory. `allow`
    names the rooms whose members may join under the join rules `restricted` and `knock_restricted`.
    `power_levels` is merged into the default power levels, including the maps in it. `key` makes the request
    idempotent: a second request of the same creator with the same key returns the same room.
    """

    creator: str
    version: str = DEFAULT_ROOM_VERSION.id
    preset: Preset = "private_chat"
    room_type: str | None = None
    name: str | None = None
    topic: str | None = None
    avatar_url: str | None = None
    alias: str | None = None
    room_id: str | None = None
    listed: bool = False
    invite: Sequence[str] = ()
    is_direct: bool = False
    initial_state: Sequence[InitialState] = ()
    power_levels: Mapping[str, Any] = field(default_factory=dict)
    creation_content: Mapping[str, Any] = field(default_factory=dict)
    history_visibility: str | None = None
    join_rule: str | None = None
    allow: Sequence[str] = ()
    federate: bool = True
    key: str | None = None


@dataclass(frozen=True, slots=True)
class CreatedRoom:
    """`is_new` is false for a room that was found by its key. `not_invited` maps the users that could not be
    invited to the reason; the room was created nevertheless."""

    room_id: str
    is_new: bool
    not_invited: Mapping[str, str] = field(default_factory=dict)


# "private_chat: join_rules is set to invite. history_visibility is set to shared. […] public_chat: join_rules
# is set to public. history_visibility is set to shared." `guest_access` is `can_join`, `can_join`,
# `forbidden`.
_PRESETS: Final[Mapping[str, tuple[str, str]]] = {
    "private_chat": ("invite", "can_join"),
    "trusted_private_chat": ("invite", "can_join"),
    "public_chat": ("public", "forbidden"),
}
_VISIBILITIES: Final = frozenset({"world_readable", "shared", "invited", "joined"})
_RULES_WITH_CONDITIONS: Final = frozenset({"restricted", "knock_restricted"})
_SET_BY_FIELD: Final = {
    "m.room.create": "creation_content",
    "m.room.member": "invite",
    "m.room.power_levels": "power_levels",
}
_NEW_ROOMS: Final = frozenset({"10", "11", "12"})
"""Rooms of older versions can be joined, but new rooms should not use them."""
MAX_INVITES: Final = 100
MAX_INITIAL_STATE: Final = 1_000
"""Events that the `initial_state` of a request may contain."""
TOMBSTONE_LEVEL: Final = 150
"""Version 12: only creators, whose power level is infinite, may send the tombstone of an upgrade."""


@dataclass(frozen=True, slots=True)
class RoomPlan:
    """The events of a new room, which are committed together. `remote_invites` are users of other servers,
    whose servers must sign the invites first."""

    version: RoomVersion
    events: tuple[NewEvent, ...]
    room_id: str | None
    """None if the room id is derived from the create event."""
    alias: str | None
    remote_invites: tuple[str, ...]


def plan(
    request: CreateRoomRequest, server: str, *, opaque: str, profiles: Mapping[str, Mapping[str, Any]] | None = None
) -> RoomPlan:
    """Plan the events of a new room. MatrixError if the request is invalid.

    `opaque` is a random localpart for the room id. `profiles` holds the profiles of users of this server, for
    their member events.
    """
    version = new_room_version(request.version)
    if domain(request.creator) != server or not is_user_id(request.creator):
        raise _invalid("The creator is not a user of this server.")
    _refuse_invited(request)
    _refuse_state(request, version)
    alias = _alias(request, server)
    known = profiles or {}
    invited = [user for user in dict.fromkeys(request.invite) if user != request.creator]
    local = [user for user in invited if domain(user) == server]
    events = [
        NewEvent("m.room.create", request.creator, _create_content(request, version), ""),
        _member(request.creator, request.creator, {**known.get(request.creator, {}), "membership": "join"}),
        NewEvent("m.room.power_levels", request.creator, power_levels(request, version), ""),
        *(NewEvent(type_, request.creator, content, key) for type_, key, content in _state(request, alias)),
        *(_member(request.creator, user, invite_content(request, known.get(user, {}))) for user in local),
    ]
    return RoomPlan(
        version,
        tuple(events),
        _room_id(request, version, server, opaque),
        alias,
        tuple(user for user in invited if user not in local),
    )


def new_room_version(identifier: str) -> RoomVersion:
    """The version of a room that is to be created. MatrixError if this server creates no rooms of it."""
    version = room_version(identifier)
    if version is None or version.id not in _NEW_ROOMS:
        raise MatrixError(
            "M_UNSUPPORTED_ROOM_VERSION", f"This server cannot create rooms of version {identifier[:64]}.", 400
        )
    return version


def invite_content(request: CreateRoomRequest, profile: Mapping[str, Any]) -> dict[str, Any]:
    """The content of the invite of an initial member."""
    direct = {"is_direct": True} if request.is_direct else {}
    return {**profile, **direct, "membership": "invite"}


def power_levels(request: CreateRoomRequest, version: RoomVersion) -> dict[str, Any]:
    """The content of the initial m.room.power_levels."""
    trusted = request.invite if request.preset == "trusted_private_chat" else ()
    content: dict[str, Any] = {
        "users": {},
        "users_default": 0,
        "events": {
            "m.room.name": 50,
            "m.room.avatar": 50,
            "m.room.canonical_alias": 50,
            "m.room.power_levels": 100,
            "m.room.history_visibility": 100,
            "m.room.server_acl": 100,
            "m.room.encryption": 100,
            "m.room.tombstone": 100,
        },
        "events_default": 0,
        "state_default": 50,
        "ban": 50,
        "kick": 50,
        "redact": 50,
        "invite": 50 if request.preset == "public_chat" else 0,
    }
    if version.creators_have_infinite_power:
        # Version 12: creators are not listed, and "m.room.tombstone" needs a level above the `state_default`.
        content["events"]["m.room.tombstone"] = TOMBSTONE_LEVEL
        creators = {request.creator, *_additional_creators(request, version)}
    else:
        # "trusted_private_chat: all invitees are given the same power level as the room creator."
        content["users"] = dict.fromkeys([request.creator, *trusted], 100)
        creators = set()
    for name, value in request.power_levels.items():
        if isinstance(value, Mapping) and isinstance(content.get(name), dict):
            content[name] = {**content[name], **value}
        else:
            content[name] = dict(value) if isinstance(value, Mapping) else value
    users = content["users"]
    if isinstance(users, dict) and not creators.isdisjoint(users):
        raise _invalid("In this room version creators have all power, so power_levels must not list them.")
    return content


def _create_content(request: CreateRoomRequest, version: RoomVersion) -> dict[str, Any]:
    content = dict(request.creation_content)
    for name in ("room_version", "creator"):
        content.pop(name, None)  # "The server will overwrite" both.
    if request.room_type is not None:
        content["type"] = request.room_type
    if not request.federate:
        content["m.federate"] = False
    additional = _additional_creators(request, version)
    if additional:
        content["additional_creators"] = additional
    else:
        content.pop("additional_creators", None)
    return content


def _additional_creators(request: CreateRoomRequest, version: RoomVersion) -> list[str]:
    """Version 12: "`trusted_private_chat`: […] the invitees are added to `additional_creators`"."""
    if not version.creators_have_infinite_power:
        return []
    named = request.creation_content.get("additional_creators", [])
    if not isinstance(named, list) or not all(isinstance(user, str) and is_user_id(user) for user in named):
        raise _invalid("additional_creators is not a list of user ids.")
    trusted = request.invite if request.preset == "trusted_private_chat" else ()
    return [user for user in dict.fromkeys([*named, *trusted]) if user != request.creator]


def _state(request: CreateRoomRequest, alias: str | None) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """ "Events will be created in the following order […] 4. An m.room.canonical_alias event if
    room_alias_name is given. 5. Events set by the preset. 6. Events listed in initial_state, in the order
    that they are listed. 7. Events implied by name and topic." An event in `initial_state` replaces the one
    set by the preset."""
    rule, guest_access = _PRESETS[request.preset]
    given = {(one.type, one.state_key) for one in request.initial_state}
    implied: list[tuple[StateKey, Mapping[str, Any] | None]] = [
        (("m.room.canonical_alias", ""), None if alias is None else {"alias": alias}),
        (("m.room.join_rules", ""), _join_rules(request, rule)),
        (("m.room.history_visibility", ""), {"history_visibility": request.history_visibility or "shared"}),
        (("m.room.guest_access", ""), {"guest_access": guest_access}),
    ]
    yield from ((*key, content) for key, content in implied if content is not None and key not in given)
    yield from ((one.type, one.state_key, one.content) for one in request.initial_state)
    described: list[tuple[StateKey, Mapping[str, Any] | None]] = [
        (("m.room.name", ""), None if request.name is None else {"name": request.name}),
        (("m.room.topic", ""), None if request.topic is None else {"topic": request.topic}),
        (("m.room.avatar", ""), None if request.avatar_url is None else {"url": request.avatar_url}),
    ]
    yield from ((*key, content) for key, content in described if content is not None)


def _join_rules(request: CreateRoomRequest, by_preset: str) -> dict[str, Any]:
    rule = request.join_rule or by_preset
    if rule not in _RULES_WITH_CONDITIONS:
        if request.allow:
            raise _invalid("allow is only valid with the join rules restricted and knock_restricted.")
        return {"join_rule": rule}
    if not request.allow or not all(map(is_room_id, request.allow)):
        raise _invalid(f"The join rule {rule} needs allow: the ids of the rooms whose members may join.")
    return {
        "join_rule": rule,
        "allow": [{"type": "m.room_membership", "room_id": room_id} for room_id in request.allow],
    }


# -- refusals --


def _refuse_invited(request: CreateRoomRequest) -> None:
    if len(request.invite) > MAX_INVITES:
        raise _invalid(f"At most {MAX_INVITES} users can be invited at once.")
    for user in request.invite:
        if not is_user_id(user):
            raise _invalid(f"{user[:255]} is not a user id.")


def _refuse_state(request: CreateRoomRequest, version: RoomVersion) -> None:
    if request.preset not in _PRESETS:
        raise _invalid(f"{request.preset!s:.64} is not a preset.")
    if len(request.initial_state) > MAX_INITIAL_STATE:
        raise _invalid(f"initial_state can have at most {MAX_INITIAL_STATE} events.")
    for one in request.initial_state:
        if one.type in _SET_BY_FIELD:
            raise _invalid(f"{one.type} is set with {_SET_BY_FIELD[one.type]}, not with initial_state.")
        if one.type == "m.room.encryption":
            # Agents could not read an encrypted room, and users would not notice.
            raise _invalid("Rooms of this server cannot be encrypted.")
    rules = {"public", "invite"}
    rules |= {"knock"} if version.knocking else set()
    rules |= {"restricted"} if version.restricted_joins else set()
    rules |= {"knock_restricted"} if version.knock_restricted_joins else set()
    if request.join_rule is not None and request.join_rule not in rules:
        raise _invalid(f"Rooms of version {version.id} do not have the join rule {request.join_rule!s:.64}.")
    if request.history_visibility is not None and request.history_visibility not in _VISIBILITIES:
        raise _invalid(f"{request.history_visibility!s:.64} is not a history visibility.")


def _alias(request: CreateRoomRequest, server: str) -> str | None:
    if request.alias is None:
        return None
    alias = f"#{request.alias}:{server}"
    # With a colon in the localpart it would be an alias of another server.
    if not is_room_alias(alias) or domain(alias) != server:
        raise _invalid(f"{request.alias!s:.255} is not a valid localpart of an alias.")
    return alias


def _room_id(request: CreateRoomRequest, version: RoomVersion, server: str, opaque: str) -> str | None:
    if version.create_event_is_room_id:
        if request.room_id is not None:
            raise _invalid("From version 12 on room ids cannot be chosen: they derive from the create event.")
        return None
    room_id = f"!{opaque if request.room_id is None else request.room_id}:{server}"
    if not is_room_id(room_id) or domain(room_id) != server or room_id.startswith("!:"):
        raise _invalid(f"{room_id[:255]} is not a valid room id.")
    return room_id


def _member(sender: str, user: str, content: Mapping[str, Any]) -> NewEvent:
    return NewEvent("m.room.member", sender, content, user)


def _invalid(text: str) -> MatrixError:
    return MatrixError("M_INVALID_PARAM", text, 400)
