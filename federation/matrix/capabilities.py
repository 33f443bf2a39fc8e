"""Capabilities that only some Matrix backends have."""

from enum import StrEnum


class BackendCapability(StrEnum):
    """The homeserver backend has all of them, the appservice backend may have none."""

    ROOM_IDS = "room_ids"
    """Rooms of versions up to 11 get the id in `CreateRoomRequest.room_id`."""
    EDUS = "edus"
    """EDUs of custom types are sent and received."""
    TO_DEVICE = "to_device"
    """To-device messages are stored until they are read."""
    MERGED_STATE = "merged_state"
    """The stream has entries of the kinds `state` and `unset`, for state that state resolution has made
    current or removed."""
