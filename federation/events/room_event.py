"""Events as those who live in rooms see them: what was said, without what holds the history together.

Which of a room's events a user may see. Client-server API, "Room History Visibility".

An event of ours before it is made: what it says, and not yet where it stands.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from federation.events import EventId, Pdu
from federation.events.stripped_state import StrippedEvent
from federation.matrix.room_version import RoomVersion

EntryKind = Literal["timeline", "state", "unset", "invite"]


@dataclass(frozen=True, slots=True)
class RoomEvent:
    """`is_redacted`: what is gone from its content was taken out by a redaction."""

    event_id: EventId
    room_id: str
    sender: str
    type: str
    content: Mapping[str, Any]
    origin_server_ts: int
    state_key: str | None = None
    redacts: EventId | None = None
    is_redacted: bool = False


def to_json(event: RoomEvent) -> dict[str, Any]:
    """As it is kept; `from_json` reads it."""
    kept: dict[str, Any] = {
        "event_id": event.event_id,
        "room_id": event.room_id,
        "sender": event.sender,
        "type": event.type,
        "content": event.content,
        "ts": event.origin_server_ts,
    }
    if event.state_key is not None:
        kept["state_key"] = event.state_key
    if event.redacts is not None:
        kept["redacts"] = event.redacts
    if event.is_redacted:
        kept["is_redacted"] = True
    return kept


def from_json(kept: Mapping[str, Any]) -> RoomEvent:
    return RoomEvent(
        kept["event_id"],
        kept["room_id"],
        kept["sender"],
        kept["type"],
        kept["content"],
        kept["ts"],
        kept.get("state_key"),
        kept.get("redacts"),
        kept.get("is_redacted", False),
    )


@dataclass(frozen=True, slots=True)
class StreamedEvent:
    """An event in the durable stream.

    `timeline` is new. `state` was known, or came with others, and is now current; `unset` was current and is
    no more: both only where histories had parted. `invite` is one into a room that this server is not in, and
    `invite_state` is what whoever invites shows of that room.
    """

    position: int
    kind: EntryKind
    event: RoomEvent
    invite_state: tuple[StrippedEvent, ...] = field(default=(), repr=False)


EventFilter: TypeAlias = Callable[[RoomEvent], bool]
"""By its room, type, sender or state key."""


def match_all(event: RoomEvent) -> bool:
    """For a reader whom all concerns."""
    return True


@dataclass(frozen=True, slots=True)
class Page:
    """`next` is where to go on in the same direction; None when there is no more."""

    events: Sequence[RoomEvent]
    next: str | None


@dataclass(frozen=True, slots=True)
class Context:
    """What stands around an event: `before` newest first, `after` oldest first."""

    event: RoomEvent
    before: Page
    after: Page


@dataclass(frozen=True, slots=True)
class Member:
    user_id: str
    membership: str
    displayname: str | None = None
    avatar_url: str | None = None


@dataclass(frozen=True, slots=True)
class Invite:
    """An invite that has not been answered. `state` is what is shown of the room."""

    room_id: str
    user_id: str
    sender: str
    event_id: EventId
    state: tuple[StrippedEvent, ...] = field(default=(), repr=False)


def to_room_event(shown: Pdu, original: Pdu, version: RoomVersion) -> RoomEvent:
    """`shown` is the original, or what redactions have left of it."""
    return RoomEvent(
        shown.event_id,
        shown.room_id,
        shown.sender,
        shown.type,
        shown.content,
        shown.origin_server_ts,
        shown.state_key,
        shown.redacts(version),
        shown is not original,
    )


def member_of(event: RoomEvent) -> Member:
    """What a member event says. Everything in it may be anything."""
    membership, name, avatar = (event.content.get(key) for key in ("membership", "displayname", "avatar_url"))
    return Member(
        event.state_key or "",
        membership if isinstance(membership, str) else "leave",
        name if isinstance(name, str) else None,
        avatar if isinstance(avatar, str) else None,
    )


def is_visible_to_user(
    visibility: Mapping[str, Any] | None, membership: object, *, is_joined_now: bool
) -> bool:
    """By the visibility and the user's membership on one side of the event.

    "3. If the visibility was set to `shared`, and the user joined the room at any point after the event was
    sent, allow." Whoever is joined now has. To who has left since only what was said while they were there is
    shown. It is less than they may see, and takes no search through their past.
    """
    value = None if visibility is None else visibility.get("history_visibility")
    # "1. If the visibility was set to `world_readable`, allow. 2. If the user's `membership` was `join`,
    # allow."
    if value == "world_readable" or membership == "join":
        return True
    # "4. If the user's `membership` was `invite`, and the visibility was set to `invited`, allow."
    if value == "invited":
        return membership == "invite"
    # "5. Otherwise, deny." "By default if no history_visibility is set, or if the value is not understood,
    # the visibility is assumed to be `shared`."
    return value != "joined" and is_joined_now


@dataclass(frozen=True, slots=True)
class NewEvent:
    """`ts` is the time that it bears, in milliseconds; None for the time at which it is made."""

    type: str
    sender: str
    content: Mapping[str, Any]
    state_key: str | None = None
    redacts: EventId | None = None
    ts: int | None = None
