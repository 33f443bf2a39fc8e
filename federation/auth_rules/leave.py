"""Rule 5.5: leaving, kicking and lifting a ban."""

from federation.auth_rules.room_state import RoomState
from federation.auth_rules.rules import refuse
from federation.auth_rules.verdict import ALLOWED, Verdict
from federation.pdu import Pdu


def check_leave(pdu: Pdu, target: str, state: RoomState) -> Verdict:
    version, levels = state.version, state.levels
    membership_of_sender = state.membership(pdu.sender)
    # 5.5.1 If the `sender` matches `state_key`, allow if and only if that user's current membership state is
    # `invite`, `join`, or `knock`.
    if pdu.sender == target:
        if membership_of_sender in ("invite", "join") or (
            version.knocking and membership_of_sender == "knock"
        ):
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
    # user*'s power level is less than the `sender`'s power level, allow. (Whether the target is there is
    # not asked.)
    if power >= levels.of_action("kick") and levels.of_user(target) < power:
        return ALLOWED
    # 5.5.5 Otherwise, reject.
    return refuse(version, "leave.otherwise")
