"""Rule 5.4: inviting."""

from federation.auth_rules.room_state import RoomState
from federation.auth_rules.rules import refuse
from federation.auth_rules.third_party_invite import check_third_party
from federation.auth_rules.verdict import ALLOWED, Verdict
from federation.pdu import Pdu


def check_invite(pdu: Pdu, target: str, state: RoomState) -> Verdict:
    # 5.4.1 If `content` has a `third_party_invite` property:
    if "third_party_invite" in pdu.content:
        return check_third_party(pdu, target, state)
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
