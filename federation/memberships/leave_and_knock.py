"""Leaving a room that this server is not in, which is rejecting an invite or taking back a knock, and
letting others do so where it is.

Server-server API, "Leaving Rooms (Rejecting Invites)".

Knocking: asking to be invited into a room, and hearing others ask.

Server-server API, "Knocking upon a room".
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from federation.events import Pdu, Signer, StateKey
from federation.events.stripped_state import ReceivedState, parse_state, select_state
from federation.matrix.room_version import RoomVersion
from federation.memberships.membership_event import Wish, refuse_denied, refuse_stranger, refuse_version
from federation.memberships.remote_membership import Conversation, ask


def leave(
    room_id: str,
    user: str,
    content: Mapping[str, Any],
    servers: Sequence[str],
    signer: Signer,
    now_ms: int,
) -> Conversation[None]:
    """Leave over the first of `servers` that takes it: the one that invited knows of the invite for sure."""
    return ask(Wish(room_id, user, "leave", content), servers, signer, now_ms, _check_leave_answer)


def _check_leave_answer(answer: Mapping[str, Any], event: Pdu, version: RoomVersion, server: str) -> None:
    """The answer is "an empty object, indicating the event was accepted into the graph"."""


def refuse_to_make_leave(user: str, state: Mapping[StateKey, Pdu], origin: str) -> None:
    """Raise where `make_leave` is refused. No `ver` is asked for: who was invited knows the version. Whether
    the rules let the event in is seen when the template is made."""
    refuse_stranger(user, origin)
    refuse_denied(state, origin)


def knock(
    room_id: str,
    user: str,
    content: Mapping[str, Any],
    servers: Sequence[str],
    signer: Signer,
    now_ms: int,
) -> Conversation[ReceivedState]:
    """Knock over the first of `servers` that hears it; what comes back is how the room looks from outside."""
    return ask(Wish(room_id, user, "knock", content), servers, signer, now_ms, _check_knock_answer)


def _check_knock_answer(
    answer: Mapping[str, Any], event: Pdu, version: RoomVersion, server: str
) -> ReceivedState:
    # The knock has been heard, whatever is wrong with what is shown: a mistake in it must not make us knock
    # at every other door.
    return parse_state(answer.get("knock_room_state"), event.room_id, version)


def refuse_to_make_knock(
    user: str,
    state: Mapping[StateKey, Pdu],
    version: RoomVersion,
    *,
    origin: str,
    versions: Collection[str],
) -> None:
    """Raise where `make_knock` is refused. Whether the rules let the event in is seen when the template is
    made."""
    refuse_stranger(user, origin)
    refuse_denied(state, origin)
    refuse_version(version, versions)


def answer(state: Mapping[StateKey, Pdu]) -> dict[str, Any]:
    """The answer of `send_knock`, which "MUST contain the m.room.create event for the room"."""
    return {"knock_room_state": [pdu.event for pdu in select_state(state)]}
