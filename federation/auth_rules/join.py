"""Rule 5.3: joining."""

from federation.auth_rules.levels import creators
from federation.auth_rules.restricted_join import check_authoriser
from federation.auth_rules.room_state import RoomState
from federation.auth_rules.rules import refuse
from federation.auth_rules.verdict import ALLOWED, Verdict
from federation.pdu import Pdu


def is_first_join(pdu: Pdu, state: RoomState) -> bool:
    """Rule 5.3.1. Neither sender nor state are looked at: there is nobody else in the room yet.

    Until version 10 the creator is who the create event names, from 11 its sender. `additional_creators`
    have no part in this.
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
