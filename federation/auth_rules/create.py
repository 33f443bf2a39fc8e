"""Rule 1: the event that makes the room."""

from federation.auth_rules.rules import refuse
from federation.auth_rules.verdict import ALLOWED, Verdict
from federation.identifiers import domain, is_user_id
from federation.pdu import Pdu
from federation.room_version import RoomVersion, room_version


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
