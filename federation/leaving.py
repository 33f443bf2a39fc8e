"""Leaving a room that this server is not in, which is rejecting an invite or taking back a knock, and
letting others do so where it is.

Server-server API, "Leaving Rooms (Rejecting Invites)".
"""

from collections.abc import Mapping, Sequence
from typing import Any

from federation.membership_template import Wish, refuse_denied, refuse_stranger
from federation.pdu import Pdu, Signer, StateKey
from federation.remote_membership import Conversation, ask
from federation.room_version import RoomVersion


def leave(
    room_id: str,
    user: str,
    content: Mapping[str, Any],
    servers: Sequence[str],
    signer: Signer,
    now_ms: int,
) -> Conversation[None]:
    """Leave over the first of `servers` that takes it: the one that invited knows of the invite for sure."""
    return ask(Wish(room_id, user, "leave", content), servers, signer, now_ms, _check)


def _check(answer: Mapping[str, Any], event: Pdu, version: RoomVersion, server: str) -> None:
    """The answer is "an empty object, indicating the event was accepted into the graph"."""


def refuse_to_make_leave(user: str, state: Mapping[StateKey, Pdu], origin: str) -> None:
    """Raise where `make_leave` is refused. No `ver` is asked for: who was invited knows the version. Whether
    the rules let the event in is seen when the template is made."""
    refuse_stranger(user, origin)
    refuse_denied(state, origin)
