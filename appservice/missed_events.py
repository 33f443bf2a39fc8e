"""Which events of a room the homeserver has not told, and never will.

A homeserver that is started again forgets what it had waiting for its application services: Synapse writes
down how far it has come before it has sent it. What is missing still stands in the room.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from appservice.received_event import MEMBER

Event = Mapping[str, Any]
"""As clients get it."""

_LEFT: Final = frozenset({"leave", "ban"})


def missed_events(
    newest_first: Sequence[Event],
    *,
    told: Collection[str],
    joined: Collection[str],
    is_ours: Callable[[str], bool],
    before: Collection[str] = (),
) -> list[Event]:
    """The oldest first. `newest_first` is the end of the room, `told` are those of it that the homeserver has
    told, `joined` those of ours who are in the room now. `before`: what is being told right now; what comes
    after that is still to be told.

    Nothing is missing that is older than everything told: of that nobody of ours was to be told. Nor is what
    happened while none of ours was there.
    """
    there = set(joined)
    untold: list[Event] = []
    sure = 0
    is_due = not before
    for event in newest_first:
        event_id = event["event_id"]
        membership = _membership_of_ours(event, is_ours)
        if event_id in before:
            # Whatever is not told and newer waits behind it.
            untold, sure, is_due = [], 0, True
        elif event_id in told:
            sure = len(untold)
        elif is_due and (there or membership is not None):
            untold.append(event)
        _go_back(there, event, membership)
    return untold[:sure][::-1]


def _membership_of_ours(event: Event, is_ours: Callable[[str], bool]) -> object:
    user = event.get("state_key")
    if event.get("type") != MEMBER or not isinstance(user, str) or not is_ours(user):
        return None
    return event["content"].get("membership")


def _go_back(there: set[str], event: Event, membership: object) -> None:
    """Who was there before it."""
    if membership is None:
        return
    unsigned = event.get("unsigned")
    before = unsigned.get("prev_content") if isinstance(unsigned, Mapping) else None
    was_there = isinstance(before, Mapping) and before.get("membership") == "join"
    if membership == "join" and not was_there:
        there.discard(event["state_key"])
    elif membership in _LEFT and was_there:
        there.add(event["state_key"])
