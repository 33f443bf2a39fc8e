"""Rule 5.7: knocking."""

from federation.auth_rules.room_state import RoomState
from federation.auth_rules.rules import refuse
from federation.auth_rules.verdict import ALLOWED, Verdict
from federation.pdu import Pdu


def check_knock(pdu: Pdu, target: str, state: RoomState) -> Verdict:
    version = state.version
    # Until version 6 nobody knows of knocking: "Otherwise, the membership is unknown. Reject."
    if not version.knocking:
        return refuse(version, "member.unknown")
    # 5.7.1 If the `join_rule` is anything other than `knock` or `knock_restricted`, reject.
    if state.join_rule != "knock" and not (
        version.knock_restricted_joins and state.join_rule == "knock_restricted"
    ):
        return refuse(version, "knock.join_rule")
    # 5.7.2 If `sender` does not match `state_key`, reject.
    if pdu.sender != target:
        return refuse(version, "knock.sender")
    # 5.7.3 If the `sender`'s current membership is not `ban`, `invite`, or `join`, allow.
    if state.membership(pdu.sender) not in ("ban", "invite", "join"):
        return ALLOWED
    # 5.7.4 Otherwise, reject.
    return refuse(version, "knock.otherwise")
