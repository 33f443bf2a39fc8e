"""Redaction: removes everything from an event that is not needed by the protocol.

Reference hashes and signatures are computed over the redacted form, so the result must be exact to the byte,
including edge cases.
"""

from collections.abc import Mapping
from typing import Any

from federation.matrix.room_version import RoomVersion


def redact(event: Mapping[str, Any], version: RoomVersion) -> dict[str, Any]:
    """A redacted copy of the event."""
    redacted = {key: value for key, value in event.items() if key in version.redaction_top_level}
    # Version 12: the hash of the create event *is* the room id, so it is computed without `room_id`. Synapse
    # removes it from every create event, also from one with a non-empty state key, and the event id depends
    # on it.
    if version.create_event_is_room_id and event.get("type") == "m.room.create":
        redacted.pop("room_id", None)
    content = event.get("content")
    redacted["content"] = _redact_content(event.get("type"), content, version) if isinstance(content, dict) else {}
    return redacted


def _redact_content(type_: object, content: Mapping[str, Any], version: RoomVersion) -> dict[str, Any]:
    # "The content object must also be stripped of all keys, unless it is one of the following event types"
    if type_ == "m.room.create" and version.redaction_keeps_create:
        return dict(content)
    kept = version.redaction_content.get(type_, frozenset()) if isinstance(type_, str) else frozenset()
    redacted = {key: value for key, value in content.items() if key in kept}
    # m.room.member: "Additionally, it allows the `signed` key of the `third_party_invite` key." Without that
    # key an empty object stays, as in Synapse.
    if type_ == "m.room.member" and version.redaction_keeps_signed_third_party_invite:
        invite = content.get("third_party_invite")
        if isinstance(invite, dict):
            redacted["third_party_invite"] = {"signed": invite["signed"]} if "signed" in invite else {}
    return redacted
