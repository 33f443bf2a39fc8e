"""All authorisation rules in order, in two parts.

`check_independent` has the rules that need only the event and its auth events; they are checked once. `check`
has the rules that need a state; they are checked against each relevant state: that of the event's
`auth_events`, that before the event, the current one, and those that occur in state resolution.

This file has rule 1 (`m.room.create`), rules 2 and 3 (`room_id` and `auth_events`), and rule 4 of room
versions 3 to 5 (`m.room.aliases`). `is_redaction_allowed` is not an authorisation rule from room version 3
on, but is checked after them.
"""

from collections.abc import Container, Mapping

from federation.auth_rules.auth_event_selection import POWER_LEVELS, auth_event_keys
from federation.auth_rules.levels import PowerLevels
from federation.auth_rules.membership import check_authoriser_signature, check_federate, check_member
from federation.auth_rules.power_levels import check_power_levels
from federation.auth_rules.room_state import RoomState
from federation.auth_rules.rules import refuse
from federation.auth_rules.third_party_invite import check_third_party_invite_event
from federation.auth_rules.verdict import ALLOWED, Refused, Verdict
from federation.events import CREATE, EventId, Pdu, StateKey, create_event_id
from federation.matrix.identifiers import domain, is_user_id
from federation.matrix.room_version import RoomVersion, room_version


def check_room_id(pdu: Pdu, create: Pdu | None, rejected: Container[EventId], version: RoomVersion) -> Verdict:
    # 2. (12) If the event's `room_id` is not an event ID for an accepted (not rejected) `m.room.create`
    #    event, with the sigil `!` instead of `$`, reject.
    if version.create_event_is_room_id and (
        create is None
        or create.key != CREATE
        or create.event_id != create_event_id(pdu.room_id)
        or create.event_id in rejected
    ):
        return refuse(version, "room_id")
    return ALLOWED


def check_auth_events(
    pdu: Pdu, auth_events: Mapping[EventId, Pdu], rejected: Container[EventId], version: RoomVersion
) -> Verdict:
    expected = set(auth_event_keys(pdu, version))
    seen = set()
    for event_id in pdu.auth_events:
        entry = auth_events[event_id]
        key = entry.key
        # 3.1 If there are duplicate entries for a given `type` and `state_key` pair, reject.
        if key in seen:
            return refuse(version, "auth_events.duplicate", event_id)
        # 3.2 If there are entries whose `type` and `state_key` don't match those specified by the auth events
        # selection algorithm described in the server specification, reject.
        if key is None or key not in expected:
            return refuse(version, "auth_events.unexpected", event_id)
        # 3.3 If there are entries which were themselves rejected under the checks performed on receipt of a
        # PDU, reject.
        if event_id in rejected:
            return refuse(version, "auth_events.rejected", event_id)
        # 3.4 If any event in `auth_events` has a `room_id` which does not match that of the event being
        # authorised, reject. (MSC4307; in every version, so that power in one room cannot be used in
        # another.)
        if entry.room_id != pdu.room_id:
            return refuse(version, "auth_events.room_id", event_id)
        seen.add(key)
    # 2.4 (until 11) If there is no `m.room.create` event among the entries, reject.
    if not version.create_event_is_room_id and CREATE not in seen:
        return refuse(version, "auth_events.create")
    return ALLOWED


def check_create(pdu: Pdu, version: RoomVersion) -> Verdict:
    # 1.1 If it has any `prev_events`, reject.
    if pdu.prev_events:
        return refuse(version, "create.prev_events")
    # 1.2 (until 11) If the domain of the `room_id` does not match the domain of the `sender`, reject.
    if not version.create_event_is_room_id and domain(pdu.room_id) != domain(pdu.sender):
        return refuse(version, "create.room_id_domain")
    # 1.2 (12) If the event has a `room_id`, reject.
    if version.create_event_is_room_id and "room_id" in pdu.event:
        return refuse(version, "create.room_id")
    # 1.3 If `content.room_version` is present and is not a recognised version, reject.
    if "room_version" in pdu.content and room_version(pdu.content["room_version"]) is None:
        return refuse(version, "create.room_version")
    # 1.4 (until 10) If `content` has no `creator` property, reject.
    if version.creator_in_content and "creator" not in pdu.content:
        return refuse(version, "create.creator")
    # 1.4 (12) If `additional_creators` is present in `content` and is not an array of strings where each
    # string passes the same user ID validation applied to `sender`, reject.
    if version.creators_have_infinite_power and "additional_creators" in pdu.content:
        additional = pdu.content["additional_creators"]
        if not isinstance(additional, list) or not all(
            isinstance(user, str) and is_user_id(user) for user in additional
        ):
            return refuse(version, "create.additional_creators")
    # 1.5 Otherwise, allow.
    return ALLOWED


def check_aliases(pdu: Pdu, state: RoomState) -> Verdict:
    # 4.1 If event has no `state_key`, reject.
    if pdu.state_key is None:
        return refuse(state.version, "aliases.state_key")
    # 4.2 If sender's domain doesn't matches `state_key`, reject.
    if domain(pdu.sender) != pdu.state_key:
        return refuse(state.version, "aliases.domain")
    # 4.3 Otherwise, allow.
    return ALLOWED


def check_independent(
    pdu: Pdu,
    auth_events: Mapping[EventId, Pdu],
    version: RoomVersion,
    *,
    rejected: Container[EventId] = (),
    create: Pdu | None = None,
) -> Verdict:
    """The rules that need no state: 1 to 3, and 5.2 on restricted joins.

    `auth_events` contains at least the auth events of the event; `rejected` those of them, or the create
    event, that were rejected. From room version 12 on, `create` is the create event of the room id, if it is
    known.
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

    `state` contains at least those events of `required_state` that the room has. It always contains the
    create event, also in room version 12, in which no event refers to it.
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
        return check_third_party_invite_event(pdu, state)
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


def is_redaction_allowed(redaction: Pdu, target: Pdu, state: Mapping[StateKey, Pdu], version: RoomVersion) -> bool:
    """Room version 3, "Handling redactions", with the state before the redaction. Both events must have been
    received; until then the redaction is not applied."""
    if redaction.redacts(version) != target.event_id or redaction.room_id != target.room_id:
        return False
    # "1. The power level of the redaction event's `sender` is greater than or equal to the *redact level*."
    levels = PowerLevels(state.get(CREATE), state.get(POWER_LEVELS), version)
    if levels.of_user(redaction.sender) >= levels.of_action("redact"):
        return True
    # "2. The domain of the redaction event's `sender` matches that of the original event's `sender`."
    return domain(redaction.sender) == domain(target.sender)
