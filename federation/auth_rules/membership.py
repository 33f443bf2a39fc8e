"""Rule 5, `m.room.member`: joins (5.3), restricted joins (5.2 and 5.3.5), invites (5.4), leaves, kicks and
unbans (5.5), bans (5.6) and knocks (5.7). And rule 4, `m.federate`.
"""

from collections.abc import Callable, Mapping
from typing import Final

from federation.auth_rules.levels import creators
from federation.auth_rules.room_state import RoomState
from federation.auth_rules.rules import refuse
from federation.auth_rules.third_party_invite import check_invite_by_token
from federation.auth_rules.verdict import ALLOWED, Refused, Verdict
from federation.events import Pdu
from federation.matrix.identifiers import domain
from federation.matrix.room_version import RoomVersion


def check_invite(pdu: Pdu, target: str, state: RoomState) -> Verdict:
    # 5.4.1 If `content` has a `third_party_invite` property:
    if "third_party_invite" in pdu.content:
        return check_invite_by_token(pdu, target, state)
    # 5.4.2 If the `sender`'s current membership state is not `join`, reject.
    if state.membership(pdu.sender) != "join":
        return refuse(state.version, "invite.sender")
    # 5.4.3 If *target user*'s current membership state is `join` or `ban`, reject.
    if state.membership(target) in ("join", "ban"):
        return refuse(state.version, "invite.target")
    # 5.4.4 If the `sender`'s power level is greater than or equal to the *invite level*, allow.
    if state.levels.of_user(pdu.sender) >= state.levels.of_action("invite"):
        return ALLOWED
    # 5.4.5 Otherwise, reject.
    return refuse(state.version, "invite.otherwise")


def check_leave(pdu: Pdu, target: str, state: RoomState) -> Verdict:
    version, levels = state.version, state.levels
    membership_of_sender = state.membership(pdu.sender)
    # 5.5.1 If the `sender` matches `state_key`, allow if and only if that user's current membership state is
    # `invite`, `join`, or `knock`.
    if pdu.sender == target:
        if membership_of_sender in ("invite", "join") or (version.knocking and membership_of_sender == "knock"):
            return ALLOWED
        return refuse(version, "leave.self")
    # 5.5.2 If the `sender`'s current membership state is not `join`, reject.
    if membership_of_sender != "join":
        return refuse(version, "leave.sender")
    # 5.5.3 If the *target user*'s current membership state is `ban`, and the `sender`'s power level is less
    # than the *ban level*, reject.
    power = levels.of_user(pdu.sender)
    if state.membership(target) == "ban" and power < levels.of_action("ban"):
        return refuse(version, "leave.unban")
    # 5.5.4 If the `sender`'s power level is greater than or equal to the *kick level*, and the *target
    # user*'s power level is less than the `sender`'s power level, allow. (The target's membership is not
    # checked.)
    if power >= levels.of_action("kick") and levels.of_user(target) < power:
        return ALLOWED
    # 5.5.5 Otherwise, reject.
    return refuse(version, "leave.otherwise")


def check_ban(pdu: Pdu, target: str, state: RoomState) -> Verdict:
    # 5.6.1 If the `sender`'s current membership state is not `join`, reject.
    if state.membership(pdu.sender) != "join":
        return refuse(state.version, "ban.sender")
    # 5.6.2 If the `sender`'s power level is greater than or equal to the *ban level*, and the *target
    # user*'s power level is less than the `sender`'s power level, allow.
    power = state.levels.of_user(pdu.sender)
    if power >= state.levels.of_action("ban") and state.levels.of_user(target) < power:
        return ALLOWED
    # 5.6.3 Otherwise, reject.
    return refuse(state.version, "ban.otherwise")


def check_knock(pdu: Pdu, target: str, state: RoomState) -> Verdict:
    version = state.version
    # Until room version 6 there is no knocking: "Otherwise, the membership is unknown. Reject."
    if not version.knocking:
        return refuse(version, "member.unknown")
    # 5.7.1 If the `join_rule` is anything other than `knock` or `knock_restricted`, reject.
    if state.join_rule != "knock" and not (version.knock_restricted_joins and state.join_rule == "knock_restricted"):
        return refuse(version, "knock.join_rule")
    # 5.7.2 If `sender` does not match `state_key`, reject.
    if pdu.sender != target:
        return refuse(version, "knock.sender")
    # 5.7.3 If the `sender`'s current membership is not `ban`, `invite`, or `join`, allow.
    if state.membership(pdu.sender) not in ("ban", "invite", "join"):
        return ALLOWED
    # 5.7.4 Otherwise, reject.
    return refuse(version, "knock.otherwise")


_AUTHORISER = "join_authorised_via_users_server"


def check_authoriser_signature(pdu: Pdu, version: RoomVersion) -> Verdict:
    """Rule 5.2, which needs no state. Only checks that the signature exists; `verify_event` has verified it.

    Synapse checks this for joins only, as in the selection of auth events. Other membership events with the
    key, such as a leave copied from a join, are not affected.
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


def is_first_join(pdu: Pdu, state: RoomState) -> bool:
    """Rule 5.3.1. Neither the sender nor the state are checked, because there is no other member yet.

    Until room version 10 the creator is in the content of the create event, from 11 on it is its sender.
    `additional_creators` are not considered.
    """
    if pdu.membership != "join" or pdu.prev_events != (state.create.event_id,):
        return False
    if state.version.creator_in_content:
        return pdu.state_key in creators(state.create, state.version)
    return pdu.state_key == state.create.sender


def check_join(pdu: Pdu, target: str, state: RoomState) -> Verdict:
    version, join_rule = state.version, state.join_rule
    membership = state.membership(target)
    # 5.3.2 If the `sender` does not match `state_key`, reject.
    if pdu.sender != target:
        return refuse(version, "join.sender")
    # 5.3.3 If the `sender` is banned, reject.
    if membership == "ban":
        return refuse(version, "join.banned")
    # 5.3.4 If the `join_rule` is `invite` or `knock` then allow if membership state is `invite` or `join`.
    invite_only = join_rule == "invite" or (version.knocking and join_rule == "knock")
    # 5.3.5 If the `join_rule` is `restricted` or `knock_restricted`:
    restricted = (version.restricted_joins and join_rule == "restricted") or (
        version.knock_restricted_joins and join_rule == "knock_restricted"
    )
    if invite_only or restricted:
        # 5.3.5.1 If membership state is `join` or `invite`, allow.
        if membership in ("join", "invite"):
            return ALLOWED
        if restricted:
            return check_authoriser(pdu, state)
    # 5.3.6 If the `join_rule` is `public`, allow.
    if join_rule == "public":
        return ALLOWED
    # 5.3.7 Otherwise, reject.
    return refuse(version, "join.otherwise")


def check_federate(user: str, state: RoomState) -> Verdict:
    """Rule 4, for the sender, and as in Synapse for the target of a membership event."""
    # 4. If the `content` of the `m.room.create` event in the room state has the property `m.federate` set
    #    to `false`, and the `sender` domain of the event does not match the `sender` domain of the create
    #    event, reject.
    #
    # Synapse treats any value other than `true` as `false`.
    if state.create.content.get("m.federate", True) is not True and domain(user) != domain(state.create.sender):
        return refuse(state.version, "federate", user)
    return ALLOWED


_BY_MEMBERSHIP: Final[Mapping[str, Callable[[Pdu, str, RoomState], Verdict]]] = {
    "join": check_join,
    "invite": check_invite,
    "leave": check_leave,
    "ban": check_ban,
    "knock": check_knock,
}


def check_member(pdu: Pdu, state: RoomState) -> Verdict:
    # 5.1 If there is no `state_key` property, or no `membership` property in `content`, reject.
    if pdu.state_key is None or "membership" not in pdu.content:
        return refuse(state.version, "member.properties")
    # 5.2 needs no state: see `check_authoriser_signature`.
    #
    # 5.3.1 If the only previous event is an `m.room.create` and the `state_key` is the sender of the
    # `m.room.create`, allow.
    if is_first_join(pdu, state):
        return ALLOWED
    # Synapse assumes from here on that the target has a server, and applies rule 4 to it as well.
    if domain(pdu.state_key) is None:
        return refuse(state.version, "member.properties", "the state_key is not a user ID")
    target_may_be_here = check_federate(pdu.state_key, state)
    if isinstance(target_may_be_here, Refused):
        return target_may_be_here
    membership = pdu.membership
    check = _BY_MEMBERSHIP.get(membership) if isinstance(membership, str) else None
    # 5.8 Otherwise, the membership is unknown. Reject.
    if check is None:
        return refuse(state.version, "member.unknown")
    return check(pdu, pdu.state_key, state)
