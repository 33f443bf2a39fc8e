"""Membership events between servers: completing templates, and checking submitted events.

A server that is not in a room knows neither the prev_events nor the auth_events of its membership event. A
resident server provides them in a template (`make_join`, `make_leave`, `make_knock`); the joining server
completes and signs it. Templates are made by the room engine (`prepare_event`).

An event submitted with `send_join`, `send_leave` or `send_knock` comes from a server that need not be in the
room, so it is checked in full. Signatures and auth rules are checked afterwards, as for every event.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federation.events import BuildFailure, Pdu, Signer, StateKey, parse
from federation.events.builder import sign_event
from federation.events.hashes import is_content_hash_valid
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain
from federation.matrix.room_version import RoomVersion, room_version
from federation.rooms.server_acl import ACL, server_acl

AUTHORISER: Final = "join_authorised_via_users_server"


@dataclass(frozen=True, slots=True)
class MembershipChange:
    """The membership (`join`, `leave` or `knock`) that a local user wants in a room that this server is not
    in."""

    room_id: str
    user: str
    membership: str
    content: Mapping[str, Any]
    """Further fields of the event: a display name, an avatar, a reason."""


@dataclass(frozen=True, slots=True)
class InvalidTemplate:
    """The template is malformed, or not for the requested membership."""

    problem: str


# ---- the resident server -----------------------------------------------------------------------------


def require_allowed_by_acl(state: Mapping[StateKey, Pdu], origin: str) -> None:
    """MatrixError if the room's server ACL denies the server."""
    event = state.get(ACL)
    if not server_acl(event.content if event is not None else None).allows(origin):
        raise MatrixError("M_FORBIDDEN", "The room's m.room.server_acl denies your server.", 403)


def require_own_user(user: str, origin: str) -> None:
    """MatrixError if a server makes a request for another server's user."""
    if domain(user) != origin:
        raise MatrixError("M_FORBIDDEN", "A server can only make this request for its own users.", 403)


def require_supported_version(version: RoomVersion, supported: Collection[str]) -> None:
    """MatrixError if the requesting server does not support the room's version. `supported` are its `ver`
    parameters; none means `["1"]`."""
    if version.id not in (supported or ("1",)):
        raise MatrixError(
            "M_INCOMPATIBLE_ROOM_VERSION",
            f"This room has version {version.id}, which your server does not support.",
            400,
            fields={"room_version": version.id},
        )


# ---- the joining server ------------------------------------------------------------------------------


def complete_template(
    answer: Mapping[str, Any], change: MembershipChange, signer: Signer, now_ms: int
) -> tuple[Pdu, RoomVersion] | InvalidTemplate:
    """Check a template and make the signed event from it.

    "Before signing the returned template and calling /send_join, the sending server MUST verify that: the
    room_id is equal to the roomId path parameter; both the sender and state_key are equal to the userId path
    parameter; the type of the event is m.room.member; the membership field inside content is join. […] The
    caller MAY try to join through another server." The same applies to leaving and knocking.
    """
    version = room_version(answer.get("room_version", "1"))
    if version is None:
        return InvalidTemplate("this server does not support the room's version")
    template = answer.get("event")
    if not isinstance(template, dict):
        return InvalidTemplate("it has no event")
    expected = {"room_id": change.room_id, "type": "m.room.member", "sender": change.user, "state_key": change.user}
    for name, value in expected.items():
        if template.get(name) != value:
            return InvalidTemplate(f"its {name} is not the requested one")
    content = template.get("content")
    if not isinstance(content, dict) or content.get("membership") != change.membership:
        return InvalidTemplate("its membership is not the requested one")
    event = {
        **expected,
        "content": _content(content, change, version),
        "origin_server_ts": now_ms,
        **{name: template.get(name) for name in ("depth", "prev_events", "auth_events")},
    }
    # This also detects fields that are not valid in the room version, such as auth_events that are not ids.
    finished = sign_event(event, version, signer)
    if isinstance(finished, BuildFailure):
        return InvalidTemplate(f"it does not make a valid event: {finished.problem}")
    return finished, version


def _content(content: Mapping[str, Any], change: MembershipChange, version: RoomVersion) -> dict[str, Any]:
    """The content of the event. Only the authoriser of a restricted join is copied from the template."""
    complete_template = {**change.content, "membership": change.membership}
    if change.membership == "join" and version.restricted_joins and AUTHORISER in content:
        complete_template[AUTHORISER] = content[AUTHORISER]
    return complete_template


def parse_membership_event(
    body: object, version: RoomVersion, *, room_id: str, event_id: str, origin: str, membership: str
) -> Pdu:
    """Parse and check a submitted membership event, or raise MatrixError.

    "The receiving server MUST apply certain validation before accepting the event. A specific error code is
    not mandated, but servers SHOULD return M_INVALID_PARAM if:" one of these does not hold.
    """
    pdu = parse(body, version)
    if not isinstance(pdu, Pdu):
        raise MatrixError("M_BAD_JSON", f"This is not an event: {pdu.problem}.", 400)
    if pdu.room_id != room_id:
        raise invalid("The event's room is not the one in the path.")
    if pdu.event_id != event_id:
        raise invalid("The event's id is not the one in the path.")
    # "The event type is not m.room.member. The membership field inside the event content is not join."
    if pdu.type != "m.room.member" or pdu.membership != membership:
        raise invalid(f"The event is not an m.room.member event with membership {membership}.")
    # "The state_key is not equal to the sender."
    if pdu.state_key != pdu.sender:
        raise invalid("The state_key of the event is not its sender.")
    # "The event sender is not a user ID on the origin server."
    if domain(pdu.sender) != origin:
        raise invalid("The event's sender is not a user of your server.")
    # Otherwise the event would be redacted, and a redacted membership event is of no use.
    if not is_content_hash_valid(pdu.event, version):
        raise invalid("The content hash of the event is not valid.")
    return pdu


def invalid(text: str) -> MatrixError:
    return MatrixError("M_INVALID_PARAM", text, 400)


def authoriser_of(pdu: Pdu, version: RoomVersion) -> str | None:
    """The user that authorises a restricted join, if the event names one."""
    if not version.restricted_joins or pdu.membership != "join" or AUTHORISER not in pdu.content:
        return None
    authoriser = pdu.content[AUTHORISER]
    if not isinstance(authoriser, str) or domain(authoriser) is None:
        raise invalid(f"{AUTHORISER} is not a user id.")
    return authoriser


def add_signatures_of(pdu: Pdu, returned: Mapping[str, Any], server: str, version: RoomVersion) -> Pdu | None:
    """Add the signatures of `server` in the returned event to the local event. None if the returned event is
    not the same event, or lacks them.

    Nothing else is copied from the returned event.
    """
    signatures = returned.get("signatures")
    added = signatures.get(server) if isinstance(signatures, dict) else None
    if not isinstance(added, dict) or not added:
        return None
    merged = {**pdu.event, "signatures": {**pdu.signatures, server: added}}
    same = parse(returned, version)
    signed = parse(merged, version)
    if not isinstance(same, Pdu) or not isinstance(signed, Pdu) or same.event_id != pdu.event_id:
        return None
    return signed
