"""The rules from the first to the last, in the two halves in which they are needed.

The first half looks at what the event itself says and is done once. The second looks at a state, and is
done against each state that matters: that of the event's own `auth_events`, that before the event, the
current one, and each that state resolution tries.
"""

from collections.abc import Container, Mapping
from typing import Final

from federation.auth_rules.aliases import check_aliases
from federation.auth_rules.auth_event_selection import CREATE
from federation.auth_rules.auth_events import check_auth_events, check_room_id
from federation.auth_rules.create import check_create
from federation.auth_rules.federate import check_federate
from federation.auth_rules.member import check_member
from federation.auth_rules.power_levels import check_power_levels
from federation.auth_rules.restricted_join import check_authoriser_signature
from federation.auth_rules.room_state import RoomState
from federation.auth_rules.rules import refuse
from federation.auth_rules.third_party_invite import check_third_party_invite
from federation.auth_rules.verdict import ALLOWED, Refused, Verdict
from federation.pdu import EventId, Pdu, StateKey
from federation.room_version import RoomVersion

_JUDGED_BY_CONTENT: Final = frozenset(
    {
        "m.room.create",
        "m.room.aliases",
        "m.room.member",
        "m.room.third_party_invite",
        "m.room.power_levels",
    }
)


def is_judged_by_name(type_: str) -> bool:
    """Whether the rules look at nothing of a message of this type but its sender and what it names as its
    auth events: in the same state they say of all what they say of one."""
    # 1., 4. (until 5), 5., 7. and 10. begin with "If type is". What is left asks for the domain of the sender
    # (4.), its membership (6.), its power and that which the type requires (8.), and a `state_key` (9.),
    # which a message has not.
    return type_ not in _JUDGED_BY_CONTENT


def check_independent(
    pdu: Pdu,
    auth_events: Mapping[EventId, Pdu],
    version: RoomVersion,
    *,
    rejected: Container[EventId] = (),
    create: Pdu | None = None,
) -> Verdict:
    """The rules that need no state: 1 to 3, and 5.2 on restricted joins.

    `auth_events` holds at least every event that the event names as such, `rejected` says which of them, or
    whether the create event, were rejected. From version 12 on `create` is the event that the room id
    names, if it is known.
    """
    # 1. If type is `m.room.create`:
    if pdu.type == "m.room.create":
        return check_create(pdu, version)
    for verdict in (
        check_room_id(pdu, create, rejected, version),
        check_auth_events(pdu, auth_events, rejected, version),
        check_authoriser_signature(pdu, version),
    ):
        if isinstance(verdict, Refused):
            return verdict
    return ALLOWED


def check(pdu: Pdu, state: Mapping[StateKey, Pdu], version: RoomVersion) -> Verdict:
    """The rules that depend on the state: 4 to 11.

    `state` holds at least what `state_needed` names and the room has. The create event is always among it, in
    version 12 as well, where no event names it.
    """
    if pdu.type == "m.room.create":
        return ALLOWED
    create = state.get(CREATE)
    if create is None:
        return refuse(version, "room_id" if version.create_event_is_room_id else "auth_events.create")
    return _check_in_room(pdu, RoomState(state, create, version))


def _check_in_room(pdu: Pdu, state: RoomState) -> Verdict:
    version = state.version
    # 4. `m.federate`
    sender_may_be_here = check_federate(pdu.sender, state)
    if isinstance(sender_may_be_here, Refused):
        return sender_may_be_here
    # 4. (until 5) If type is `m.room.aliases`:
    if version.aliases_have_their_own_rule and pdu.type == "m.room.aliases":
        return check_aliases(pdu, state)
    # 5. If type is `m.room.member`:
    if pdu.type == "m.room.member":
        return check_member(pdu, state)
    # 6. If the `sender`'s current membership state is not `join`, reject.
    if state.membership(pdu.sender) != "join":
        return refuse(version, "sender_joined")
    # 7. If type is `m.room.third_party_invite`:
    if pdu.type == "m.room.third_party_invite":
        return check_third_party_invite(pdu, state)
    # 8. If the event type's *required power level* is greater than the `sender`'s power level, reject.
    levels = state.levels
    if levels.required_for(pdu.type, is_state=pdu.state_key is not None) > levels.of_user(pdu.sender):
        return refuse(version, "required_power")
    # 9. If the event has a `state_key` that starts with an `@` and does not match the `sender`, reject.
    if pdu.state_key is not None and pdu.state_key.startswith("@") and pdu.state_key != pdu.sender:
        return refuse(version, "state_key_of_another")
    # 10. If type is `m.room.power_levels`:
    if pdu.type == "m.room.power_levels":
        return check_power_levels(pdu, state)
    # 11. Otherwise, allow.
    return ALLOWED


def check_against_auth_events(
    pdu: Pdu,
    auth_events: Mapping[EventId, Pdu],
    version: RoomVersion,
    *,
    rejected: Container[EventId] = (),
    create: Pdu | None = None,
) -> Verdict:
    """Step 4 of receiving a PDU: "Passes authorization rules based on the event's auth events, otherwise it
    is rejected". All rules, with the state that the event itself names."""
    verdict = check_independent(pdu, auth_events, version, rejected=rejected, create=create)
    if isinstance(verdict, Refused):
        return verdict
    state = {key: entry for entry in map(auth_events.__getitem__, pdu.auth_events) if (key := entry.key)}
    if create is not None:
        state[CREATE] = create
    return check(pdu, state, version)
