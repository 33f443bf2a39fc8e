"""Restricted joins at the resident server: whether a user may join as a member of another room, and which
local user authorises the join.

Server-server API, "Restricted rooms"; room versions 8 and later.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federation.auth_rules.auth_event_selection import JOIN_RULES
from federation.auth_rules.room_state import RoomState
from federation.events import CREATE, Pdu, StateKey
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain, is_room_id
from federation.matrix.room_version import RoomVersion

Memberships = Mapping[str, object]
"""The user's membership in each allowed room that this server is in, None if there never was one. A missing
key is a room that this server is not in."""

MAX_CONDITIONS: Final = 100


@dataclass(frozen=True, slots=True)
class NoAuthoriserNeeded:
    """The join does not depend on an authoriser."""


@dataclass(frozen=True, slots=True)
class AuthorisedBy:
    """`authoriser` is a local user that may invite. The join must name this user, and this server must sign
    it."""

    authoriser: str


def allowed_rooms(state: Mapping[StateKey, Pdu], version: RoomVersion) -> tuple[str, ...]:
    """The rooms whose members may join if the join rule is a restricted one."""
    create = state.get(CREATE)
    if create is None or not _is_restricted(RoomState(state, create, version)):
        return ()
    return tuple(_conditions(state[JOIN_RULES].content))[:MAX_CONDITIONS]


def find_join_authoriser(
    user: str, state: Mapping[StateKey, Pdu], version: RoomVersion, memberships: Memberships, server: str
) -> NoAuthoriserNeeded | AuthorisedBy:
    """Determine whether the user's join needs an authoriser, and which. MatrixError if it needs one and there
    is none.

    `state` holds the memberships of this server's users, all power levels and the join rules.
    """
    create = state.get(CREATE)
    room = RoomState(state, create, version) if create is not None else None
    if room is None or not _is_restricted(room) or room.membership(user) in ("join", "invite", "ban"):
        # A joined or invited user needs no authoriser, and a banned one cannot join with one.
        return NoAuthoriserNeeded()
    rooms = allowed_rooms(state, version)
    if not any(memberships.get(condition) == "join" for condition in rooms):
        # "If […] none of the conditions can be validated by the server then the errcode
        # M_UNABLE_TO_AUTHORISE_JOIN must be used." Synapse uses it also when some can be and are not met: the
        # user may meet one of the others, and another server may know.
        if any(condition not in memberships for condition in rooms):
            raise MatrixError(
                "M_UNABLE_TO_AUTHORISE_JOIN",
                "This server is not in all of the rooms whose members may join. Try another server.",
                400,
            )
        # "If the joining server fails all conditions then a 403 M_FORBIDDEN error is used by the resident
        # server."
        raise MatrixError("M_FORBIDDEN", "You are not in any of the rooms whose members may join.", 403)
    authoriser = find_authoriser(room, state, server)
    if authoriser is None:
        # "M_UNABLE_TO_GRANT_JOIN is returned to denote that a different server should be attempted for the
        # join. This is typically because the resident server can see that the joining user satisfies one or
        # more conditions […], but the resident server would be unable to meet the auth rules governing
        # join_authorised_via_users_server".
        raise MatrixError(
            "M_UNABLE_TO_GRANT_JOIN", "No user of this server may invite into this room. Try another server.", 400
        )
    return AuthorisedBy(authoriser)


def find_authoriser(room: RoomState, state: Mapping[StateKey, Pdu], server: str) -> str | None:
    """The joined user of this server with the most power to invite, who is least likely to lose it during the
    join.

    From version 12 on, creators have infinite power without being listed in the power levels. Other users of
    this server may have the power to invite as well.
    """
    level = room.levels.of_action("invite")
    candidates = [
        (-power, user)
        for (type_, user), member in state.items()
        if type_ == "m.room.member" and domain(user) == server and member.membership == "join"
        if (power := room.levels.of_user(user)) >= level
    ]
    return min(candidates)[1] if candidates else None


def _is_restricted(room: RoomState) -> bool:
    version, rule = room.version, room.join_rule
    return (version.restricted_joins and rule == "restricted") or (
        version.knock_restricted_joins and rule == "knock_restricted"
    )


def _conditions(join_rules: Mapping[str, Any]) -> Iterator[str]:
    """`allow: [{type: "m.room_membership", room_id}]`. A condition of another type is not met."""
    allow = join_rules.get("allow")
    for condition in allow if isinstance(allow, list) else ():
        if isinstance(condition, dict) and condition.get("type") == "m.room_membership":
            room_id = condition.get("room_id")
            if isinstance(room_id, str) and is_room_id(room_id):
                yield room_id
