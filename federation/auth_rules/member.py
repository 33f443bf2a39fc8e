"""Rule 5: `m.room.member`."""

from collections.abc import Callable, Mapping
from typing import Final

from federation.auth_rules.ban import check_ban
from federation.auth_rules.federate import check_federate
from federation.auth_rules.invite import check_invite
from federation.auth_rules.join import check_join, is_first_join
from federation.auth_rules.knock import check_knock
from federation.auth_rules.leave import check_leave
from federation.auth_rules.room_state import RoomState
from federation.auth_rules.rules import refuse
from federation.auth_rules.verdict import ALLOWED, Refused, Verdict
from federation.identifiers import domain
from federation.pdu import Pdu

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
    # 5.2 is about signatures: see `restricted_join`. It needs no state.
    #
    # 5.3.1 If the only previous event is an `m.room.create` and the `state_key` is the sender of the
    # `m.room.create`, allow.
    if is_first_join(pdu, state):
        return ALLOWED
    # Synapse takes the target's server for granted from here on, and applies rule 4 to it as well.
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
