"""The template of a membership event: what `make_join`, `make_leave` and `make_knock` answer with.

A server that is not in a room knows neither what its event must follow nor what permits it. One that is in
the room tells it; the first completes the event and signs it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federation.auth_rules import Refused, check, selected
from federation.errors import MatrixError
from federation.identifiers import domain
from federation.pdu import CannotBuild, EventId, Pdu, Signer, StateKey, Template, view
from federation.pdu.builder import as_event, finish
from federation.pdu.limits import MAX_OWN_PREV_EVENTS
from federation.room_version import RoomVersion, room_version
from federation.server_acl import server_acl

AUTHORISER: Final = "join_authorised_via_users_server"
ACL: Final[StateKey] = ("m.room.server_acl", "")


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a room that this server is in stands: what the next event follows, and the state there.

    `state` holds at least what the decision asks for and the room has; all of it will always do.
    """

    room_id: str
    version: RoomVersion
    state: Mapping[StateKey, Pdu]
    extremities: Sequence[tuple[EventId, int]]
    """The events that nothing follows yet, and their depths."""


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


def offered(wish: Wish, standing: Standing, now_ms: int) -> dict[str, Any]:
    """The answer of `make_*`: `{room_version, event}`. Raises where the rules would not let the event in."""
    extremities = list(standing.extremities)[:MAX_OWN_PREV_EVENTS]
    template = Template(
        "m.room.member",
        wish.user,
        {**wish.content, "membership": wish.membership},
        now_ms,
        room_id=standing.room_id,
        state_key=wish.user,
        prev_events=[event_id for event_id, _ in extremities],
        prev_depths=[depth for _, depth in extremities],
    )
    keys = selected(template, standing.version)
    event = as_event(template, standing.version)
    event["auth_events"] = [standing.state[key].event_id for key in keys if key in standing.state]
    verdict = check(view(event, b"", "$template", standing.version), standing.state, standing.version)
    if isinstance(verdict, Refused):
        raise MatrixError("M_FORBIDDEN", f"This room does not allow that: {verdict}", 403)
    return {"room_version": standing.version.id, "event": event}


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
