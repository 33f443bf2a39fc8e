"""Restricted joins at the resident server: whether somebody may join for being in another room, and who of
this server vouches for it.

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
"""For each room of the conditions that this server is in, the user's membership there, None if there never
was one. A room that is missing here is one about which this server knows nothing."""

MOST_CONDITIONS: Final = 100


@dataclass(frozen=True, slots=True)
class NotRestricted:
    """The join stands or falls without anybody's vouching."""


@dataclass(frozen=True, slots=True)
class VouchedFor:
    """`authoriser`, a user of this server, may invite; the join names them and this server signs it."""

    authoriser: str


def rooms_that_admit(state: Mapping[StateKey, Pdu], version: RoomVersion) -> tuple[str, ...]:
    """The rooms of which one must have the user as a member, when the join rule is a restricted one."""
    create = state.get(CREATE)
    if create is None or not _is_restricted(RoomState(state, create, version)):
        return ()
    return tuple(_conditions(state[JOIN_RULES].content))[:MOST_CONDITIONS]


def authorise(
    user: str,
    state: Mapping[StateKey, Pdu],
    version: RoomVersion,
    memberships: Memberships,
    server: str,
) -> NotRestricted | VouchedFor:
    """Whether and by whom the user's join is vouched for. Raises where it cannot be.

    `state` holds the memberships of this server's users, all power levels and the join rules.
    """
    create = state.get(CREATE)
    room = RoomState(state, create, version) if create is not None else None
    if room is None or not _is_restricted(room) or room.membership(user) in ("join", "invite", "ban"):
        # Whoever is in the room or invited needs nobody's word, and whoever is banned gets it from nobody.
        return NotRestricted()
    rooms = rooms_that_admit(state, version)
    if not any(memberships.get(condition) == "join" for condition in rooms):
        # "If […] none of the conditions can be validated by the server then the errcode
        # M_UNABLE_TO_AUTHORISE_JOIN must be used." Synapse uses it also when some can be and are not met: the
        # user may meet one of the others, and another server may know.
        if any(condition not in memberships for condition in rooms):
            raise MatrixError(
                "M_UNABLE_TO_AUTHORISE_JOIN",
                "This server is not in all of the rooms that open this one: ask another.",
                400,
            )
        # "If the joining server fails all conditions then a 403 M_FORBIDDEN error is used by the resident
        # server."
        raise MatrixError("M_FORBIDDEN", "You are in none of the rooms whose members may join.", 403)
    authoriser = who_may_invite(room, state, server)
    if authoriser is None:
        # "M_UNABLE_TO_GRANT_JOIN is returned to denote that a different server should be attempted for the
        # join. This is typically because the resident server can see that the joining user satisfies one or
        # more conditions […], but the resident server would be unable to meet the auth rules governing
        # join_authorised_via_users_server".
        raise MatrixError(
            "M_UNABLE_TO_GRANT_JOIN", "Nobody on this server may invite into this room: ask another.", 400
        )
    return VouchedFor(authoriser)


def who_may_invite(room: RoomState, state: Mapping[StateKey, Pdu], server: str) -> str | None:
    """A user of this server who is in the room and may invite: the one with most power, as the others are
    more likely to lose it while the join is under way.

    From version 12 the creators have infinite power without being listed anywhere. Only those of this server
    count, and they are not the only ones who do: others may have the power to invite.
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
