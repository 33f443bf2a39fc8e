"""What may stay in `unsigned` when a peer has filled it. Nobody has signed it, so it can hold anything."""

from collections.abc import Mapping
from typing import Any, Final

_ALWAYS: Final = frozenset({"age"})
_OF_MEMBERS: Final = _ALWAYS | {"invite_room_state", "knock_room_state"}


def strip_unsigned(event: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with only `age` left in `unsigned`, and on membership events the state shown to who is invited
    or knocks. When nothing is left, `unsigned` goes as well."""
    stripped = dict(event)
    unsigned = stripped.pop("unsigned", None)
    if isinstance(unsigned, dict):
        allowed = _OF_MEMBERS if event.get("type") == "m.room.member" else _ALWAYS
        kept = {key: value for key, value in unsigned.items() if key in allowed}
        if kept:
            stripped["unsigned"] = kept
    return stripped
