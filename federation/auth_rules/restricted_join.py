"""Rules 5.2 and 5.3.5: joining a room because one is in another, which a server of the room vouches for."""

from federation.auth_rules.room_state import RoomState
from federation.auth_rules.rules import refuse
from federation.auth_rules.verdict import ALLOWED, Verdict
from federation.identifiers import domain
from federation.pdu import Pdu
from federation.room_version import RoomVersion

_AUTHORISER = "join_authorised_via_users_server"


def check_authoriser_signature(pdu: Pdu, version: RoomVersion) -> Verdict:
    """Needs no state, and trusts that signatures which are there have been verified: `verify_event` does
    that.

    Synapse asks this of joins only, as it does for selecting auth events. Other membership events that have
    the key, as a leave copied from a join, are none of this rule's business.
    """
    if not (
        version.restricted_joins
        and pdu.type == "m.room.member"
        and pdu.membership == "join"
        and _AUTHORISER in pdu.content
    ):
        return ALLOWED
    authoriser = pdu.content[_AUTHORISER]
    server = domain(authoriser) if isinstance(authoriser, str) else None
    # 5.2.1 If the event is not validly signed by the homeserver of the user ID denoted by the key, reject.
    if server is None or server not in pdu.signatures:
        return refuse(version, "member.authoriser_signature")
    return ALLOWED


def check_authoriser(pdu: Pdu, state: RoomState) -> Verdict:
    authoriser = pdu.content.get(_AUTHORISER)
    # 5.3.5.2 If the `join_authorised_via_users_server` key in `content` is not a user with sufficient
    # permission to invite other users, reject.
    if (
        not isinstance(authoriser, str)
        or state.membership(authoriser) != "join"
        or state.levels.of_user(authoriser) < state.levels.of_action("invite")
    ):
        return refuse(state.version, "join.authoriser")
    # 5.3.5.3 Otherwise, allow.
    return ALLOWED
