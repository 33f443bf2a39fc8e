"""The membership event that another server hands in: the checks of `send_join`, `send_leave`, `send_knock`.

It comes from a server that need not be in the room, so nothing of it is taken for granted. Signatures, the
content hash and the authorisation rules are looked at afterwards, as for every event.

The template of a membership event: what `make_join`, `make_leave` and `make_knock` answer with.

A server that is not in a room knows neither what its event must follow nor what permits it. One that is in
the room tells it; the first completes the event and signs it. The template itself is made where all events
of a room are made.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federation.events import BuildFailure, Pdu, Signer, StateKey, parse
from federation.events.builder import sign_event
from federation.events.hashes import content_hash_holds
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain
from federation.matrix.room_version import RoomVersion, room_version
from federation.rooms.server_acl import ACL, server_acl

AUTHORISER: Final = "join_authorised_via_users_server"


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody on a server that is not in the room wants to be there: `join`, `leave` or `knock`."""

    room_id: str
    user: str
    membership: str
    content: Mapping[str, Any]
    """What else the event is to say: a name, an avatar, a reason."""


@dataclass(frozen=True, slots=True)
class WrongTemplate:
    """It is not for what was asked: malformed, and the next server is asked."""

    problem: str


# ---- the resident server -----------------------------------------------------------------------------


def refuse_denied(state: Mapping[StateKey, Pdu], origin: str) -> None:
    """Raise where the room's ACL denies the server."""
    event = state.get(ACL)
    if not server_acl(event.content if event is not None else None).allows(origin):
        raise MatrixError("M_FORBIDDEN", "This room does not let your server take part.", 403)


def refuse_stranger(user: str, origin: str) -> None:
    """Raise where a server asks for another server's user."""
    if domain(user) != origin:
        raise MatrixError("M_FORBIDDEN", "A server asks for its own users only.", 403)


def refuse_version(version: RoomVersion, supported: Collection[str]) -> None:
    """Raise where the asking server does not know the room's version. `supported` are its `ver`; it means
    `["1"]` when it gives none."""
    if version.id not in (supported or ("1",)):
        raise MatrixError(
            "M_INCOMPATIBLE_ROOM_VERSION",
            f"This room has version {version.id}, which your server does not support.",
            400,
            fields={"room_version": version.id},
        )


# ---- the server that asks ----------------------------------------------------------------------------


def completed(
    answer: Mapping[str, Any], wish: Wish, signer: Signer, now_ms: int
) -> tuple[Pdu, RoomVersion] | WrongTemplate:
    """The event that the template is for, completed and signed.

    "Before signing the returned template and calling /send_join, the sending server MUST verify that: the
    room_id is equal to the roomId path parameter; both the sender and state_key are equal to the userId path
    parameter; the type of the event is m.room.member; the membership field inside content is join. […] The
    caller MAY try to join through another server." So it is for leaving and knocking.
    """
    version = room_version(answer.get("room_version", "1"))
    if version is None:
        return WrongTemplate("the room has a version that this server does not support")
    template = answer.get("event")
    if not isinstance(template, dict):
        return WrongTemplate("there is no event in it")
    expected = {
        "room_id": wish.room_id,
        "type": "m.room.member",
        "sender": wish.user,
        "state_key": wish.user,
    }
    for name, value in expected.items():
        if template.get(name) != value:
            return WrongTemplate(f"its {name} is not the one that was asked for")
    content = template.get("content")
    if not isinstance(content, dict) or content.get("membership") != wish.membership:
        return WrongTemplate("its membership is not the one that was asked for")
    event = {
        **expected,
        "content": _content(content, wish, version),
        "origin_server_ts": now_ms,
        **{name: template.get(name) for name in ("depth", "prev_events", "auth_events")},
    }
    # What of it is no event of the version, such as auth events that are no ids, is found out here.
    finished = sign_event(event, version, signer)
    if isinstance(finished, BuildFailure):
        return WrongTemplate(f"no event can be made of it: {finished.problem}")
    return finished, version


def _content(content: Mapping[str, Any], wish: Wish, version: RoomVersion) -> dict[str, Any]:
    """What we want to say, and of the template only who vouches for a restricted join."""
    said = {**wish.content, "membership": wish.membership}
    if wish.membership == "join" and version.restricted_joins and AUTHORISER in content:
        said[AUTHORISER] = content[AUTHORISER]
    return said


def handed_in(
    body: object, version: RoomVersion, *, room_id: str, event_id: str, origin: str, membership: str
) -> Pdu:
    """The event, or MatrixError.

    "The receiving server MUST apply certain validation before accepting the event. A specific error code is
    not mandated, but servers SHOULD return M_INVALID_PARAM if:" one of these does not hold.
    """
    pdu = parse(body, version)
    if not isinstance(pdu, Pdu):
        raise MatrixError("M_BAD_JSON", f"This is not an event: {pdu.problem}.", 400)
    if pdu.room_id != room_id:
        raise invalid("The event is of another room than the path says.")
    if pdu.event_id != event_id:
        raise invalid("The event has another id than the path says.")
    # "The event type is not m.room.member. The membership field inside the event content is not join."
    if pdu.type != "m.room.member" or pdu.membership != membership:
        raise invalid(f"The event is not an m.room.member event with membership {membership}.")
    # "The state_key is not equal to the sender."
    if pdu.state_key != pdu.sender:
        raise invalid("The state_key of the event is not its sender.")
    # "The event sender is not a user ID on the origin server."
    if domain(pdu.sender) != origin:
        raise invalid("The event is of another server's user.")
    # An event whose content was changed on the way would be kept redacted, which is no use to anybody here.
    if not content_hash_holds(pdu.event, version):
        raise invalid("The content hash of the event does not hold.")
    return pdu


def invalid(text: str) -> MatrixError:
    return MatrixError("M_INVALID_PARAM", text, 400)


def authoriser_of(pdu: Pdu, version: RoomVersion) -> str | None:
    """The user who vouches for a restricted join, if one is named."""
    if not version.restricted_joins or pdu.membership != "join" or AUTHORISER not in pdu.content:
        return None
    authoriser = pdu.content[AUTHORISER]
    if not isinstance(authoriser, str) or domain(authoriser) is None:
        raise invalid(f"{AUTHORISER} is not a user id.")
    return authoriser


def with_signatures_of(
    pdu: Pdu, returned: Mapping[str, Any], server: str, version: RoomVersion
) -> Pdu | None:
    """Our event with the signatures that `server` has put on it; None when what came back is not our event
    or they are not there.

    Only signatures are taken over, and only that server's: everything else stays as we made it.
    """
    made = returned.get("signatures")
    theirs = made.get(server) if isinstance(made, dict) else None
    if not isinstance(theirs, dict) or not theirs:
        return None
    merged = {**pdu.event, "signatures": {**pdu.signatures, server: theirs}}
    same = parse(returned, version)
    ours = parse(merged, version)
    if not isinstance(same, Pdu) or not isinstance(ours, Pdu) or same.event_id != pdu.event_id:
        return None
    return ours
