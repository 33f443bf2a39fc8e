"""Rules 2 and 3: where an event claims to have its permission from. They do not depend on the room's
state."""

from collections.abc import Container, Mapping

from federation.auth_rules.auth_event_selection import CREATE, selected
from federation.auth_rules.rules import refuse
from federation.auth_rules.verdict import ALLOWED, Verdict
from federation.pdu import EventId, Pdu, create_event_id
from federation.room_version import RoomVersion


def check_room_id(
    pdu: Pdu, create: Pdu | None, rejected: Container[EventId], version: RoomVersion
) -> Verdict:
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
    expected = set(selected(pdu, version))
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
        # authorised, reject. (MSC4307; in every version, lest power from one room is used in another.)
        if entry.room_id != pdu.room_id:
            return refuse(version, "auth_events.room_id", event_id)
        seen.add(key)
    # 2.4 (until 11) If there is no `m.room.create` event among the entries, reject.
    if not version.create_event_is_room_id and CREATE not in seen:
        return refuse(version, "auth_events.create")
    return ALLOWED
