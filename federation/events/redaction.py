"""Redaction: what is left of an event when everything its sender was free to write has been taken out.

Every hash that names an event, and every signature on it, is made over its redacted form, so this is exact to
the byte, edge cases included.
"""

from collections.abc import Mapping
from typing import Any

from federation.matrix.room_version import RoomVersion


def redact(event: Mapping[str, Any], version: RoomVersion) -> dict[str, Any]:
    """A redacted copy. The event is left as it was."""
    redacted = {key: value for key, value in event.items() if key in version.redaction_top_level}
    # Version 12: the create event's hash *is* the room id, so the hash is made without one. Synapse leaves it
    # out of every create event, also one with a state key of its own, and the event id depends on it.
    if version.create_event_is_room_id and event.get("type") == "m.room.create":
        redacted.pop("room_id", None)
    content = event.get("content")
    redacted["content"] = (
        _redact_content(event.get("type"), content, version) if isinstance(content, dict) else {}
    )
    return redacted


def _redact_content(type_: object, content: Mapping[str, Any], version: RoomVersion) -> dict[str, Any]:
    # "The content object must also be stripped of all keys, unless it is one of the following event types"
    if type_ == "m.room.create" and version.redaction_keeps_create:
        return dict(content)
    kept = version.redaction_content.get(type_, frozenset()) if isinstance(type_, str) else frozenset()
    redacted = {key: value for key, value in content.items() if key in kept}
    # m.room.member: "Additionally, it allows the `signed` key of the `third_party_invite` key." When there
    # is no such key in it, an empty object stays, as it does in Synapse.
    if type_ == "m.room.member" and version.redaction_keeps_signed_third_party_invite:
        invite = content.get("third_party_invite")
        if isinstance(invite, dict):
            redacted["third_party_invite"] = {"signed": invite["signed"]} if "signed" in invite else {}
    return redacted
