"""`palaver rooms state`: the current state of a room, or one part of it."""

from collections.abc import Mapping
from typing import Any, Final

from bridge.service.operator.arguments import Arguments
from bridge.service.operator.finding import find_room
from bridge.service.operator.parts import Parts
from federation.pdu import Pdu, StateKey
from storage.errors import LocalError

PAGE: Final = 100
MOST: Final = 1_000
MOST_BYTES: Final = 4 * 1024 * 1024
"""Of contents in one answer."""


async def rooms_state(parts: Parts, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entries by type and key. With a type they come with their contents, redacted ones as they are
    seen."""
    arguments = Arguments(given)
    room_id = await find_room(parts, arguments.text("room"))
    type_, key = arguments.optional_text("type"), arguments.optional_text("key")
    limit = arguments.number("limit", PAGE, MOST)
    state = await parts.graph.current_state(room_id)
    chosen = sorted(
        entry for entry in state if type_ in (None, entry[0]) and (key is None or entry[1] == key)
    )
    if not chosen:
        raise _nothing(state, type_, key)
    ids = {entry: state[entry] for entry in chosen[:limit]}
    events = await parts.graph.events(ids.values())
    shown = {pdu.event_id: pdu for pdu in await parts.graph.shown_to_people(list(events.values()))}
    budget = MOST_BYTES if type_ is not None else 0
    entries = []
    for entry, event_id in ids.items():
        pdu = shown[event_id]
        budget -= len(pdu.canonical)
        entries.append(_shown(entry, pdu, with_content=budget >= 0))
    return {"room_id": room_id, "entries": entries, "total": len(chosen)}


def _shown(entry: StateKey, pdu: Pdu, *, with_content: bool) -> dict[str, Any]:
    said = {
        "type": entry[0],
        "state_key": entry[1],
        "event_id": pdu.event_id,
        "sender": pdu.sender,
        "origin_server_ts": pdu.origin_server_ts,
    }
    return {**said, "content": pdu.content} if with_content else said


def _nothing(state: Mapping[StateKey, str], type_: str | None, key: str | None) -> LocalError:
    keys = sorted(entry[1] for entry in state if entry[0] == type_)
    if keys and key is not None:
        return LocalError(
            f"The state has no {type_} with the key {key!r}.", f"It has {len(keys)}; leave out the key."
        )
    return LocalError(f"The state has no {type_}.", "Leave out the type to see what it has.")
