"""Joining a room through another server, and accepting joins of other servers as a resident server.

Server-server API, "Joining Rooms".
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from federation.events import Pdu, Signer, StateKey
from federation.matrix.identifiers import domain
from federation.matrix.room_version import RoomVersion
from federation.memberships import send_join_response
from federation.memberships.membership_event import (
    AUTHORISER,
    MembershipChange,
    authoriser_of,
    invalid,
    require_allowed_by_acl,
    require_own_user,
    require_supported_version,
)
from federation.memberships.remote_membership import Handshake, try_servers
from federation.memberships.restricted_joins import AuthorisedBy, Memberships, find_join_authoriser
from federation.memberships.send_join_response import InvalidResponse, JoinResult


def join(
    room_id: str, user: str, content: Mapping[str, Any], servers: Sequence[str], signer: Signer, now_ms: int
) -> Handshake[JoinResult]:
    """Join through the first of `servers` that accepts it. `content` holds further fields of the event."""
    return try_servers(MembershipChange(room_id, user, "join", content), servers, signer, now_ms, _check)


def _check(answer: Mapping[str, Any], event: Pdu, version: RoomVersion, server: str) -> JoinResult | str:
    parsed = send_join_response.parse_response(answer, event, version, server)
    return parsed.problem if isinstance(parsed, InvalidResponse) else parsed


def join_template_content(
    user: str,
    state: Mapping[StateKey, Pdu],
    version: RoomVersion,
    *,
    origin: str,
    versions: Collection[str],
    memberships: Memberships,
    server: str,
) -> dict[str, Any]:
    """The content of the template for `make_join`, besides the membership. MatrixError if the user of
    `origin` may not join. The auth rules are checked when the template is made.

    `state` holds what `restricted_joins.find_join_authoriser` needs, and the room's ACL. `memberships` holds
    the user's memberships in the rooms that `restricted_joins.allowed_rooms` names.
    """
    require_own_user(user, origin)
    require_allowed_by_acl(state, origin)
    require_supported_version(version, versions)
    found = find_join_authoriser(user, state, version, memberships, server)
    return {AUTHORISER: found.authoriser} if isinstance(found, AuthorisedBy) else {}


def needs_local_signature(
    join: Pdu, state: Mapping[StateKey, Pdu], version: RoomVersion, memberships: Memberships, server: str
) -> bool:
    """Whether a user of this server authorises the submitted join, so that this server must sign it.
    MatrixError if no user can: the template may be outdated, or not from this server.

    "If the resident server is receiving the /send_join request, the signature must be added before sending or
    persisting the event to other servers."
    """
    authoriser = authoriser_of(join, version)
    if authoriser is None:
        return False
    if domain(authoriser) != server:
        # The authoriser's server must have signed already. The signature is verified with the event.
        if domain(authoriser) not in join.signatures:
            raise invalid("The join lacks the signature of the server that authorises it.")
        return False
    find_join_authoriser(join.sender, state, version, memberships, server)
    return True
