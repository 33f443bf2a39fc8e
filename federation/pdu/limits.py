"""How large an event and its parts may be. Client-server API, "Size limits"; server-server API, "PDUs"."""

from collections.abc import Mapping
from typing import Any, Final

from federation.identifiers import MAX_BYTES

MAX_PDU_BYTES: Final = 65_536
"""The specification: "The complete event MUST NOT be larger than 65536 bytes, when formatted with the
federation event format, including any signatures, and encoded as Canonical JSON.\""""

MAX_AUTH_EVENTS: Final = 10
MAX_PREV_EVENTS: Final = 20

MAX_DEPTH: Final = 2**53 - 1
"""The specification: "If the room's depth is already at the limit, the depth must be set to the limit.\""""

MAX_NESTING: Final = 127
"""How many objects and arrays an event may hold within each other, itself included. The specification is
silent; Synapse reads no deeper, and an event that most servers cannot read is better dropped by all."""

MAX_OWN_PREV_EVENTS: Final = 10
"""How many events an event of ours follows at most, as in Synapse: more would make resolving state dearer."""

MAX_OWN_CONTENT_BYTES: Final = 60_000
"""What an event of ours may hold, so that there is room for the signatures that others add."""

_BOUNDED_FIELDS: Final = ("sender", "room_id", "state_key", "type", "event_id")


def overlong_field(event: Mapping[str, Any]) -> tuple[str, bool] | None:
    """A field that is too long, and whether even in code points.

    `sender`, `room_id`, `state_key`, `type` and `event_id` may have 255 bytes. Servers used to count code
    points, and rooms of versions before 11 may hold events that are longer in bytes: those are kept, as
    rejected.
    """
    longest: tuple[str, bool] | None = None
    for name in _BOUNDED_FIELDS:
        if name not in event:
            continue
        value = event[name]
        if type(value) is not str or len(value) <= MAX_BYTES // 4:
            continue
        if len(value) > MAX_BYTES:
            return name, True
        if longest is None and len(value.encode()) > MAX_BYTES:
            longest = name, False
    return longest
