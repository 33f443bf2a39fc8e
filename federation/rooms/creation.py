"""The events that a new room begins with. Client-server API, `POST /createRoom`.

A room as somebody asks for it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from federation.events import StateKey
from federation.events.room_event import NewEvent
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain, is_room_alias, is_room_id, is_user_id
from federation.matrix.room_version import DEFAULT_ROOM_VERSION, RoomVersion, room_version

Preset = Literal["private_chat", "trusted_private_chat", "public_chat"]
"""`private_chat`: by invite. `trusted_private_chat`: the same, and who is invited has the creator's power.
`public_chat`: everybody may come in."""


@dataclass(frozen=True, slots=True)
class InitialState:
    type: str
    content: Mapping[str, Any]
    state_key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomRequest:
    """What is None or empty is as the preset has it.

    `alias` and `room_id` are what stands before the colon. The latter is for versions until 11, whose rooms
    are named by their server; it needs `BackendCapability.ROOM_IDS`. `listed` puts the room into the public
    directory. `allow` names the rooms whose members may join under the join rules `restricted` and
    `knock_restricted`. `power_levels` is laid over the usual ones, and so are the maps in it. `key`: asked
    for again with the same key by the same creator, it is the same room.
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
    """`is_new` is false for one that was found by its key. `not_invited`: who could not be reached or may not
    be invited, and why; the room is there all the same."""

    room_id: str
    is_new: bool
    not_invited: Mapping[str, str] = field(default_factory=dict)


# "private_chat: join_rules is set to invite. history_visibility is set to shared. […] public_chat: join_rules
# is set to public. history_visibility is set to shared." And of guests: `can_join`, `can_join`, `forbidden`.
_PRESETS: Final[Mapping[str, tuple[str, str]]] = {
    "private_chat": ("invite", "can_join"),
    "trusted_private_chat": ("invite", "can_join"),
    "public_chat": ("public", "forbidden"),
}
_VISIBILITIES: Final = frozenset({"world_readable", "shared", "invited", "joined"})
_RULES_WITH_CONDITIONS: Final = frozenset({"restricted", "knock_restricted"})
_OWN_PLACE: Final = {
    "m.room.create": "creation_content",
    "m.room.member": "invite",
    "m.room.power_levels": "power_levels",
}
_NEW_ROOMS: Final = frozenset({"10", "11", "12"})
"""Versions before 10 are taken part in; nobody should begin with one today."""
MOST_INVITED: Final = 100
MOST_STATE: Final = 1_000
"""How many a request may name."""
TOMBSTONE_LEVEL: Final = 150
"""Version 12: only creators, whose power is infinite, may close the room for another one."""


@dataclass(frozen=True, slots=True)
class Creation:
    """`events` go into one commit. `invite_elsewhere` are of other servers, which have to be asked first."""

    version: RoomVersion
    events: tuple[NewEvent, ...]
    room_id: str | None
    """None where the create event makes it."""
    alias: str | None
    invite_elsewhere: tuple[str, ...]


def plan(
    request: RoomRequest,
    server: str,
    *,
    opaque: str,
    profiles: Mapping[str, Mapping[str, Any]] | None = None,
) -> Creation:
    """`opaque` is a random localpart. `profiles` says of users of this server what their member events do.

    Every refusal is a MatrixError for whoever asked.
    """
    version = version_for_new(request.version)
    if domain(request.creator) != server or not is_user_id(request.creator):
        raise _invalid("The creator is no user of this server.")
    _refuse_invited(request)
    _refuse_state(request, version)
    alias = _alias(request, server)
    known = profiles or {}
    invited = [user for user in dict.fromkeys(request.invite) if user != request.creator]
    here = [user for user in invited if domain(user) == server]
    events = [
        NewEvent("m.room.create", request.creator, _create_content(request, version), ""),
        _member(request.creator, request.creator, {**known.get(request.creator, {}), "membership": "join"}),
        NewEvent("m.room.power_levels", request.creator, power_levels(request, version), ""),
        *(NewEvent(type_, request.creator, content, key) for type_, key, content in _state(request, alias)),
        *(_member(request.creator, user, invite_content(request, known.get(user, {}))) for user in here),
    ]
    return Creation(
        version,
        tuple(events),
        _room_id(request, version, server, opaque),
        alias,
        tuple(user for user in invited if user not in here),
    )


def version_for_new(identifier: str) -> RoomVersion:
    """Of a room that is to be made."""
    version = room_version(identifier)
    if version is None or version.id not in _NEW_ROOMS:
        raise MatrixError(
            "M_UNSUPPORTED_ROOM_VERSION", f"No rooms of version {identifier[:64]} are made here.", 400
        )
    return version


def invite_content(request: RoomRequest, profile: Mapping[str, Any]) -> dict[str, Any]:
    """What an invite of the room's first members says."""
    direct = {"is_direct": True} if request.is_direct else {}
    return {**profile, **direct, "membership": "invite"}


def power_levels(request: RoomRequest, version: RoomVersion) -> dict[str, Any]:
    """Who may do what."""
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
        # Version 12: creators are not listed, and "m.room.tombstone" takes more than anybody can be given by
        # `state_default`.
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
        raise _invalid("In this room version creators have all power, and power levels may not list them.")
    return content


def _create_content(request: RoomRequest, version: RoomVersion) -> dict[str, Any]:
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


def _additional_creators(request: RoomRequest, version: RoomVersion) -> list[str]:
    """Version 12: "`trusted_private_chat`: […] the invitees are added to `additional_creators`"."""
    if not version.creators_have_infinite_power:
        return []
    named = request.creation_content.get("additional_creators", [])
    if not isinstance(named, list) or not all(isinstance(user, str) and is_user_id(user) for user in named):
        raise _invalid("additional_creators is not a list of user ids.")
    trusted = request.invite if request.preset == "trusted_private_chat" else ()
    return [user for user in dict.fromkeys([*named, *trusted]) if user != request.creator]


def _state(request: RoomRequest, alias: str | None) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """ "Events will be created in the following order […] 4. An m.room.canonical_alias event if
    room_alias_name is given. 5. Events set by the preset. 6. Events listed in initial_state, in the order
    that they are listed. 7. Events implied by name and topic." What the request itself says again takes the
    place of what the preset says."""
    rule, guests = _PRESETS[request.preset]
    given = {(one.type, one.state_key) for one in request.initial_state}
    implied: list[tuple[StateKey, Mapping[str, Any] | None]] = [
        (("m.room.canonical_alias", ""), None if alias is None else {"alias": alias}),
        (("m.room.join_rules", ""), _join_rules(request, rule)),
        (
            ("m.room.history_visibility", ""),
            {"history_visibility": request.history_visibility or "shared"},
        ),
        (("m.room.guest_access", ""), {"guest_access": guests}),
    ]
    yield from ((*key, content) for key, content in implied if content is not None and key not in given)
    yield from ((one.type, one.state_key, one.content) for one in request.initial_state)
    described: list[tuple[StateKey, Mapping[str, Any] | None]] = [
        (("m.room.name", ""), None if request.name is None else {"name": request.name}),
        (("m.room.topic", ""), None if request.topic is None else {"topic": request.topic}),
        (("m.room.avatar", ""), None if request.avatar_url is None else {"url": request.avatar_url}),
    ]
    yield from ((*key, content) for key, content in described if content is not None)


def _join_rules(request: RoomRequest, by_preset: str) -> dict[str, Any]:
    rule = request.join_rule or by_preset
    if rule not in _RULES_WITH_CONDITIONS:
        if request.allow:
            raise _invalid("Only the join rules restricted and knock_restricted have conditions.")
        return {"join_rule": rule}
    if not request.allow or not all(map(is_room_id, request.allow)):
        raise _invalid(f"The join rule {rule} needs the rooms whose members may join.")
    return {
        "join_rule": rule,
        "allow": [{"type": "m.room_membership", "room_id": room_id} for room_id in request.allow],
    }


# -- refusals --


def _refuse_invited(request: RoomRequest) -> None:
    if len(request.invite) > MOST_INVITED:
        raise _invalid(f"At most {MOST_INVITED} can be invited at once.")
    for user in request.invite:
        if not is_user_id(user):
            raise _invalid(f"{user[:255]} is not a user id.")


def _refuse_state(request: RoomRequest, version: RoomVersion) -> None:
    if request.preset not in _PRESETS:
        raise _invalid("There is no such preset.")
    if len(request.initial_state) > MOST_STATE:
        raise _invalid(f"At most {MOST_STATE} entries of state can be set at once.")
    for one in request.initial_state:
        if one.type in _OWN_PLACE:
            raise _invalid(f"{one.type} is said by {_OWN_PLACE[one.type]}, not by initial_state.")
        if one.type == "m.room.encryption":
            # Agents could read nothing in it, and nobody would be told.
            raise _invalid("Rooms of this server are not encrypted.")
    rules = {"public", "invite"}
    rules |= {"knock"} if version.knocking else set()
    rules |= {"restricted"} if version.restricted_joins else set()
    rules |= {"knock_restricted"} if version.knock_restricted_joins else set()
    if request.join_rule is not None and request.join_rule not in rules:
        raise _invalid(f"Rooms of version {version.id} have no such join rule.")
    if request.history_visibility is not None and request.history_visibility not in _VISIBILITIES:
        raise _invalid("There is no such history visibility.")


def _alias(request: RoomRequest, server: str) -> str | None:
    if request.alias is None:
        return None
    alias = f"#{request.alias}:{server}"
    # `#a:b` in front of our own name would be an alias of another server.
    if not is_room_alias(alias) or domain(alias) != server:
        raise _invalid("That is no alias.")
    return alias


def _room_id(request: RoomRequest, version: RoomVersion, server: str, opaque: str) -> str | None:
    if version.create_event_is_room_id:
        if request.room_id is not None:
            raise _invalid("From version 12 on nobody chooses the id of a room: its first event makes it.")
        return None
    room_id = f"!{opaque if request.room_id is None else request.room_id}:{server}"
    if not is_room_id(room_id) or domain(room_id) != server or room_id.startswith("!:"):
        raise _invalid("That is no room id.")
    return room_id


def _member(sender: str, user: str, content: Mapping[str, Any]) -> NewEvent:
    return NewEvent("m.room.member", sender, content, user)


def _invalid(text: str) -> MatrixError:
    return MatrixError("M_INVALID_PARAM", text, 400)
