"""Joining a room: over another server when this one is not in it, and letting others in when it is.

Server-server API, "Joining Rooms".
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from federation import send_join_answer
from federation.identifiers import domain
from federation.membership_event import authoriser_of, invalid
from federation.membership_template import (
    AUTHORISER,
    Standing,
    Wish,
    offered,
    refuse_denied,
    refuse_stranger,
    refuse_version,
)
from federation.pdu import Pdu, Signer
from federation.remote_membership import Conversation, ask
from federation.restricted_joins import Memberships, VouchedFor, authorise
from federation.room_version import RoomVersion
from federation.send_join_answer import SentJoin, WrongAnswer


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


def make_join(
    standing: Standing,
    user: str,
    *,
    origin: str,
    versions: Collection[str],
    memberships: Memberships,
    server: str,
    now_ms: int,
) -> dict[str, Any]:
    """The answer of `make_join`; raises MatrixError where `origin`'s user may not join.

    `memberships` is the user's in the rooms that `restricted_joins.rooms_that_admit` names.
    """
    refuse_stranger(user, origin)
    refuse_denied(standing.state, origin)
    refuse_version(standing.version, versions)
    vouched = authorise(user, standing.state, standing.version, memberships, server)
    content = {AUTHORISER: vouched.authoriser} if isinstance(vouched, VouchedFor) else {}
    return offered(Wish(standing.room_id, user, "join", content), standing, now_ms)


def needs_our_signature(join: Pdu, standing: Standing, memberships: Memberships, server: str) -> bool:
    """Whether the join that was handed in rests on the word of a user of this server. Raises where that is
    not given: the template may be an old one, or none of ours.

    "If the resident server is receiving the /send_join request, the signature must be added before sending or
    persisting the event to other servers."
    """
    authoriser = authoriser_of(join, standing.version)
    if authoriser is None:
        return False
    if domain(authoriser) != server:
        # Its server has to have signed already; verifying the event's signatures shows whether.
        if domain(authoriser) not in join.signatures:
            raise invalid("The join lacks the signature of the server that vouches for it.")
        return False
    authorise(join.sender, standing.state, standing.version, memberships, server)
    return True
