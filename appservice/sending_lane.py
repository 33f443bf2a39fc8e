"""What is to be heard in the order in which it was said.

A homeserver takes several events for one room at once, and makes more of them a second that way. What people
read one after the other stays in its order; what belongs to different threads nobody reads so.
"""

from collections.abc import Mapping
from typing import Any, Final

MAIN: Final = ""


def sending_lane(content: Mapping[str, Any]) -> str | None:
    """What one user says in one lane of a room is said one after the other. None for what need not wait for
    anything: who reacts to an event has its id."""
    relation = content.get("m.relates_to")
    if not isinstance(relation, Mapping):
        return MAIN
    match relation.get("rel_type"):
        case "m.annotation":
            return None
        # The last edit is what counts.
        case "m.thread" | "m.replace" as kind:
            event_id = relation.get("event_id")
            return f"{kind} {event_id}" if isinstance(event_id, str) else MAIN
    return MAIN
