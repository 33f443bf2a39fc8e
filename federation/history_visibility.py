"""Which of a room's events another server may see. Server-server API, and client-server API, "Room History
Visibility"."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from federation.identifiers import domain
from federation.pdu import EventId, StateKey

HISTORY_VISIBILITY: Final[StateKey] = ("m.room.history_visibility", "")

_ENOUGH: Final[Mapping[object, frozenset[str]]] = {
    "invited": frozenset({"invite", "join"}),
    "joined": frozenset({"join"}),
}


def memberships_that_see(content: Mapping[str, Any] | None) -> frozenset[str] | None:
    """Which memberships at the time let a server see an event; None when it does not matter.

    `world_readable` and `shared` are seen by every server that is in the room today, and only such servers
    may ask. "If the value is not understood, or there is no such event, it is `shared`."
    """
    value = None if content is None else content.get("history_visibility")
    return _ENOUGH.get(value) if isinstance(value, str) else None


def members_of(server: str, state: Mapping[StateKey, EventId]) -> list[EventId]:
    """The membership events of a server's users."""
    return [
        event_id
        for (type_, state_key), event_id in state.items()
        if type_ == "m.room.member" and domain(state_key) == server
    ]


def sees(enough: Collection[str] | None, memberships: Collection[object]) -> bool:
    """Whether one of the server's users had what it takes."""
    return enough is None or any(isinstance(one, str) and one in enough for one in memberships)
