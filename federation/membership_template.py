"""The template of a membership event: what `make_join`, `make_leave` and `make_knock` answer with.

A server that is not in a room knows neither what its event must follow nor what permits it. One that is in
the room tells it; the first completes the event and signs it. The template itself is made where all events
of a room are made.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federation.errors import MatrixError
from federation.identifiers import domain
from federation.pdu import CannotBuild, Pdu, Signer, StateKey
from federation.pdu.builder import finish
from federation.room_version import RoomVersion, room_version
from federation.server_acl import server_acl

AUTHORISER: Final = "join_authorised_via_users_server"
ACL: Final[StateKey] = ("m.room.server_acl", "")


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
    finished = finish(event, version, signer)
    if isinstance(finished, CannotBuild):
        return WrongTemplate(f"no event can be made of it: {finished.problem}")
    return finished, version


def _content(content: Mapping[str, Any], wish: Wish, version: RoomVersion) -> dict[str, Any]:
    """What we want to say, and of the template only who vouches for a restricted join."""
    said = {**wish.content, "membership": wish.membership}
    if wish.membership == "join" and version.restricted_joins and AUTHORISER in content:
        said[AUTHORISER] = content[AUTHORISER]
    return said
