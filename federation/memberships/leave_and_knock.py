"""Leaving and knocking through other servers, and handling these requests as a resident server.

A user leaves a room that its server is not in to reject an invite or withdraw a knock. Server-server API,
"Leaving Rooms (Rejecting Invites)" and "Knocking upon a room".
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from federation.events import Pdu, Signer, StateKey
from federation.events.stripped_state import ReceivedState, parse_state, select_state
from federation.matrix.room_version import RoomVersion
from federation.memberships.membership_event import (
    MembershipChange,
    require_allowed_by_acl,
    require_own_user,
    require_supported_version,
)
from federation.memberships.remote_membership import Handshake, try_servers


def leave(
    room_id: str, user: str, content: Mapping[str, Any], servers: Sequence[str], signer: Signer, now_ms: int
) -> Handshake[None]:
    """Leave through the first of `servers` that accepts it. The inviting server certainly knows of the
    invite."""
    return try_servers(MembershipChange(room_id, user, "leave", content), servers, signer, now_ms, _check_leave_answer)


def _check_leave_answer(answer: Mapping[str, Any], event: Pdu, version: RoomVersion, server: str) -> None:
    """Accept any response: it is "an empty object, indicating the event was accepted into the graph"."""


def check_make_leave(user: str, state: Mapping[StateKey, Pdu], origin: str) -> None:
    """MatrixError if `make_leave` is refused. It has no `ver`, since the server of an invited user knows the
    room version. The auth rules are checked when the template is made."""
    require_own_user(user, origin)
    require_allowed_by_acl(state, origin)


def knock(
    room_id: str, user: str, content: Mapping[str, Any], servers: Sequence[str], signer: Signer, now_ms: int
) -> Handshake[ReceivedState]:
    """Knock through the first of `servers` that accepts it. The result is the room's stripped state."""
    return try_servers(MembershipChange(room_id, user, "knock", content), servers, signer, now_ms, _check_knock_answer)


def _check_knock_answer(answer: Mapping[str, Any], event: Pdu, version: RoomVersion, server: str) -> ReceivedState:
    # The knock was accepted, even if the stripped state is invalid. That must not cause knocks through the
    # other servers.
    return parse_state(answer.get("knock_room_state"), event.room_id, version)


def check_make_knock(
    user: str, state: Mapping[StateKey, Pdu], version: RoomVersion, *, origin: str, versions: Collection[str]
) -> None:
    """MatrixError if `make_knock` is refused. The auth rules are checked when the template is made."""
    require_own_user(user, origin)
    require_allowed_by_acl(state, origin)
    require_supported_version(version, versions)


def knock_response(state: Mapping[StateKey, Pdu]) -> dict[str, Any]:
    """The response of `send_knock`, which "MUST contain the m.room.create event for the room"."""
    return {"knock_room_state": [pdu.event for pdu in select_state(state)]}
