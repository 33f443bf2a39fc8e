"""What only some Matrix sides can do."""

from enum import StrEnum


class BackendCapability(StrEnum):
    """A homeserver can do all of it; a guest of another homeserver, an application service, perhaps none."""

    ROOM_IDS = "room_ids"
    """Rooms of versions until 11 are given the id that `CreateRoomRequest.room_id` asks for."""
    EDUS = "edus"
    """EDUs of types that the specification does not have are sent and heard."""
    TO_DEVICE = "to_device"
    """Messages to devices are kept until they are read."""
    MERGED_STATE = "merged_state"
    """The stream says what the merging of histories has made current and what it has taken out: entries of
    the kinds `state` and `unset`."""
