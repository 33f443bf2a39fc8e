"""Rule 5.6: banning."""

from federation.auth_rules.room_state import RoomState
from federation.auth_rules.rules import refuse
from federation.auth_rules.verdict import ALLOWED, Verdict
from federation.pdu import Pdu


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
