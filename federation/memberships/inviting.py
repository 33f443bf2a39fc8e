"""Invites between servers. The invited user's server signs the invite before it is sent to the room.

Server-server API, "Inviting to a room".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from federation.events import Pdu, StateKey, parse
from federation.events.hashes import is_content_hash_valid
from federation.events.stripped_state import ReceivedState, parse_state, select_state
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain
from federation.matrix.room_version import RoomVersion, room_version
from federation.memberships.membership_event import add_signatures_of, invalid


@dataclass(frozen=True, slots=True)
class ReceivedInvite:
    """An invite of a valid format. `state` is the room's stripped state; from version 12 on its signatures
    must be verified as well (`must_verify_state`)."""

    event: Pdu
    version: RoomVersion
    state: ReceivedState
    must_verify_state: bool


# ---- the inviting server -----------------------------------------------------------------------------


def invite_request(invite: Pdu, state: Mapping[StateKey, Pdu], version: RoomVersion) -> dict[str, Any]:
    """Build the body of `PUT /v2/invite`, whose `invite_room_state` "MUST contain the m.room.create event for
    the room. All events listed MUST additionally be formatted according to the room version
    specification"."""
    return {
        "room_version": version.id,
        "event": invite.event,
        "invite_room_state": [pdu.event for pdu in select_state(state, invite.sender)],
    }


def parse_invite_response(answer: Mapping[str, Any], invite: Pdu, version: RoomVersion) -> Pdu | str:
    """The invite with the invited server's signature, or what is wrong with the response, which should be
    "the event with the invited server's signature added. All other fields of the events should remain
    untouched"."""
    returned = answer.get("event")
    if not isinstance(returned, dict):
        return "the response has no event"
    invited = domain(invite.state_key or "") or ""
    merged = add_signatures_of(invite, returned, invited, version)
    return merged or "the returned event is not the invite with a signature added"


# ---- the invited server ------------------------------------------------------------------------------


def parse_invite(body: object, *, room_id: str, event_id: str, origin: str, server: str) -> ReceivedInvite:
    """Parse and check an invite of another server, or raise MatrixError.

    "Servers MUST apply certain validation to ensure they don't accidentally sign non-invite events from a
    malicious server. A specific error code is not mandated, but servers SHOULD return M_INVALID_PARAM if:"
    one of these does not hold. Its signature is checked afterwards.
    """
    if not isinstance(body, dict):
        raise MatrixError("M_NOT_JSON", "The request is not a JSON object.", 400)
    named = body.get("room_version")
    if not isinstance(named, str):
        raise MatrixError("M_MISSING_PARAM", "room_version is missing.", 400)
    version = room_version(named)
    if version is None:
        raise incompatible(named)
    invite = parse(body.get("event"), version)
    if not isinstance(invite, Pdu):
        raise MatrixError("M_BAD_JSON", f"This is not an event: {invite.problem}.", 400)
    if invite.room_id != room_id:
        raise invalid("The event's room is not the one in the path.")
    if invite.event_id != event_id:
        raise invalid("The event's id is not the one in the path.")
    # "The event type is not m.room.member. The membership field inside the event content is not invite."
    if invite.type != "m.room.member" or invite.membership != "invite":
        raise invalid("The event is not an invite.")
    # "The event sender is not a user ID on the origin server."
    if domain(invite.sender) != origin:
        raise invalid("The event's sender is not a user of your server.")
    # "The state_key is not a user ID on the receiving server."
    if invite.state_key is None or domain(invite.state_key) != server:
        raise invalid("The invited user is not a user of this server.")
    if not is_content_hash_valid(invite.event, version):
        raise invalid("The content hash of the event is not valid.")
    return ReceivedInvite(invite, version, *_state(body.get("invite_room_state"), room_id, version))


def _state(entries: object, room_id: str, version: RoomVersion) -> tuple[ReceivedState, bool]:
    """The `invite_room_state` "has additional validation, which servers MAY apply to room versions 1 through
    11 and SHOULD apply to all other room versions". Before version 12 a problem in it only causes a
    warning."""
    state = parse_state(entries, room_id, version)
    must_hold = version.create_event_is_room_id
    if must_hold and state.problem is not None:
        if entries is None or state.create_is_missing:
            # "The m.room.create event is missing from invite_room_state."
            raise MatrixError("M_MISSING_PARAM", "invite_room_state lacks the create event.", 400)
        raise invalid(f"invite_room_state: {state.problem}.")
    return state, must_hold


def incompatible(version: str) -> MatrixError:
    return MatrixError(
        "M_INCOMPATIBLE_ROOM_VERSION",
        f"This server does not support rooms of version {version[:64]}.",
        400,
        fields={"room_version": version[:64]},
    )
