"""The children of a space: validation and order of `m.space.child` events.

Client-server API, "Spaces", `m.space.child`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from federation.events import Pdu
from federation.matrix.canonical_json import NotCanonical, encode
from federation.matrix.identifiers import is_room_id, is_user_id

CHILD: Final = "m.space.child"
MAX_CHILDREN: Final = 500
MAX_BYTES: Final = 256 * 1024
"""The limit for the children of one space: an event may have 64 kB, and a response has many spaces."""
MAX_DEPTH: Final = 100
"""The limit for the nesting of an event. A response contains it some levels deep, and the JSON encoder
fails beyond 254."""

# "Must consist of ASCII characters within the range `\x20` (space) and `\x7E` (`~`), inclusive. Must not
# exceed 50 characters."
_ORDER: Final = re.compile(r"[\x20-\x7E]{0,50}")

Child = Mapping[str, Any]
"""A stripped event: `type`, `state_key`, `sender`, `content`, `origin_server_ts`."""


def children_of(events: Iterable[Pdu], *, suggested_only: bool = False) -> list[Child]:
    """Return the children from the state of a local room."""
    return _select((_stripped(pdu) for pdu in events), suggested_only)


def parse_children(entries: object, *, suggested_only: bool = False) -> list[Child]:
    """Parse the children in another server's response, leaving out invalid events."""
    listed = entries[: 10 * MAX_CHILDREN] if isinstance(entries, list) else []
    parsed = [child for entry in listed if (child := _parse(entry)) is not None]
    return _select(parsed, suggested_only)


def via_of(child: Child) -> tuple[str, ...]:
    via: list[str] = child["content"]["via"]
    return tuple(via)


def _select(children: Iterable[Child], suggested_only: bool) -> list[Child]:
    """Return the valid children in order, up to the limits."""
    selected: list[Child] = []
    size = 0
    for child in sorted(filter(_is_child, children), key=_sort_key):
        # "suggested_only: Optional (default false) flag to indicate whether or not the server should only
        # consider suggested rooms."
        if suggested_only and child["content"].get("suggested") is not True:
            continue
        try:
            size += len(encode(child, max_depth=MAX_DEPTH))
        except NotCanonical:
            continue  # an event of an early room version, which other servers could not parse in a response
        if size > MAX_BYTES or len(selected) == MAX_CHILDREN:
            break
        selected.append(child)
    return selected


def _stripped(pdu: Pdu) -> Child:
    return {
        "type": pdu.type,
        "state_key": pdu.state_key,
        "sender": pdu.sender,
        "content": dict(pdu.content),
        "origin_server_ts": pdu.origin_server_ts,
    }


def _parse(entry: object) -> Child | None:
    if not isinstance(entry, dict) or entry.get("type") != CHILD:
        return None
    state_key, sender, content, time = (
        entry.get(name) for name in ("state_key", "sender", "content", "origin_server_ts")
    )
    if not isinstance(sender, str) or not is_user_id(sender) or not isinstance(content, dict):
        return None
    if type(time) is not int or not isinstance(state_key, str):
        return None
    return {"type": CHILD, "state_key": state_key, "sender": sender, "content": content, "origin_server_ts": time}


def _is_child(child: Child) -> bool:
    # "When not present or invalid, the child room is not considered to be part of the space." This
    # includes redacted events.
    via = child["content"].get("via")
    return (
        is_room_id(child["state_key"])
        and isinstance(via, list)
        and bool(via)
        and all(isinstance(server, str) for server in via)
    )


def _sort_key(child: Child) -> tuple[bool, str, int, str]:
    # "Rooms are sorted based on a lexicographic ordering of the Unicode codepoints of the characters in
    # `order` values. Rooms with no `order` come last, in ascending numeric order of the `origin_server_ts` of
    # their `m.space.child` events, or ascending lexicographic order of their `room_id`s in case of equal
    # `origin_server_ts`. `order`s which are not strings, or do not consist solely of ascii characters in the
    # range `\x20` (space) to `\x7E` (`~`), or consist of more than 50 characters, are forbidden and the field
    # should be ignored if received."
    order = child["content"].get("order")
    is_valid = isinstance(order, str) and _ORDER.fullmatch(order) is not None
    return not is_valid, order if is_valid else "", child["origin_server_ts"], child["state_key"]
