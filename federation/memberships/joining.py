"""Joining a room: over another server when this one is not in it, and letting others in when it is.

Server-server API, "Joining Rooms".
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from federation.events import Pdu, Signer, StateKey
from federation.matrix.identifiers import domain
from federation.matrix.room_version import RoomVersion
from federation.memberships import send_join_answer
from federation.memberships.membership_event import (
    AUTHORISER,
    Wish,
    authoriser_of,
    invalid,
    refuse_denied,
    refuse_stranger,
    refuse_version,
)
from federation.memberships.remote_membership import Conversation, ask
from federation.memberships.restricted_joins import Memberships, VouchedFor, authorise
from federation.memberships.send_join_answer import SentJoin, WrongAnswer


def join(
    room_id: str,
    user: str,
    content: Mapping[str, Any],
    servers: Sequence[str],
    signer: Signer,
    now_ms: int,
) -> Conversation[SentJoin]:
    """Join over the first of `servers` that lets us, each in turn. `content` is what else the event says."""
    return ask(Wish(room_id, user, "join", content), servers, signer, now_ms, _check)


def _check(answer: Mapping[str, Any], event: Pdu, version: RoomVersion, server: str) -> SentJoin | str:
    read = send_join_answer.read(answer, event, version, server)
    return read.problem if isinstance(read, WrongAnswer) else read


def content_of_join(
    user: str,
    state: Mapping[StateKey, Pdu],
    version: RoomVersion,
    *,
    origin: str,
    versions: Collection[str],
    memberships: Memberships,
    server: str,
) -> dict[str, Any]:
    """What the template that `make_join` answers with says, besides the membership; raises MatrixError where
    `origin`'s user may not join. Whether the rules let the event in is seen when the template is made.

    `state` holds what `restricted_joins.authorise` reads, and the room's ACL. `memberships` is the user's in
    the rooms that `restricted_joins.rooms_that_admit` names.
    """
    refuse_stranger(user, origin)
    refuse_denied(state, origin)
    refuse_version(version, versions)
    vouched = authorise(user, state, version, memberships, server)
    return {AUTHORISER: vouched.authoriser} if isinstance(vouched, VouchedFor) else {}


def needs_our_signature(
    join: Pdu, state: Mapping[StateKey, Pdu], version: RoomVersion, memberships: Memberships, server: str
) -> bool:
    """Whether the join that was handed in rests on the word of a user of this server. Raises where that is
    not given: the template may be an old one, or none of ours.

    "If the resident server is receiving the /send_join request, the signature must be added before sending or
    persisting the event to other servers."
    """
    authoriser = authoriser_of(join, version)
    if authoriser is None:
        return False
    if domain(authoriser) != server:
        # Its server has to have signed already; verifying the event's signatures shows whether.
        if domain(authoriser) not in join.signatures:
            raise invalid("The join lacks the signature of the server that vouches for it.")
        return False
    authorise(join.sender, state, version, memberships, server)
    return True
