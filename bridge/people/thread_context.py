"""What was said before in a thread or a chat, for an agent that goes on with it."""

from collections.abc import Iterable
from typing import Final

from bridge.people.cleaning import one_line
from bridge.people.message import MESSAGE, read
from bridge.people.text import Kind, is_ours, kind_of
from federation.room_event import RoomEvent

MOST_CHARACTERS: Final = 24_000
MOST_OF_ONE: Final = 8_000
LEFT_OUT: Final = "[…]"
_SAID: Final = frozenset({Kind.REQUEST, Kind.ANSWER})


def context_of(events: Iterable[RoomEvent], request: str) -> str:
    """Of events in their order, without the request itself and what comes after it. The oldest are left out
    when there are too many."""
    said: list[str] = []
    for event in events:
        if event.event_id == request:
            break
        line = _said(event)
        if line is not None:
            said.append(line)
    kept: list[str] = []
    left = MOST_CHARACTERS
    for line in reversed(said):
        if len(line) > left:
            kept.append(LEFT_OUT)
            break
        kept.append(line)
        left -= len(line) + 2
    return "\n\n".join(reversed(kept))


def _said(event: RoomEvent) -> str | None:
    """What the node and its agents say by the way, such as progress, is no part of a conversation."""
    if event.type != MESSAGE or event.is_redacted:
        return None
    if is_ours(event.content) and kind_of(event.content) not in _SAID:
        return None
    message = read(event.content)
    if message.msgtype not in {"m.text", "m.notice"} or message.replaces is not None or not message.body:
        return None
    body = message.body if len(message.body) <= MOST_OF_ONE else f"{message.body[:MOST_OF_ONE]} {LEFT_OUT}"
    return f"{one_line(event.sender, 255)}: {body}"
