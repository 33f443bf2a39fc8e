"""Rule 4 of room versions 3 to 5: `m.room.aliases`."""

from federation.auth_rules.room_state import RoomState
from federation.auth_rules.rules import refuse
from federation.auth_rules.verdict import ALLOWED, Verdict
from federation.identifiers import domain
from federation.pdu import Pdu


def check_aliases(pdu: Pdu, state: RoomState) -> Verdict:
    # 4.1 If event has no `state_key`, reject.
    if pdu.state_key is None:
        return refuse(state.version, "aliases.state_key")
    # 4.2 If sender's domain doesn't matches `state_key`, reject.
    if domain(pdu.sender) != pdu.state_key:
        return refuse(state.version, "aliases.domain")
    # 4.3 Otherwise, allow.
    return ALLOWED
