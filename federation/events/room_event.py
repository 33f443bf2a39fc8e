"""Events in the form that local users and the bridge see: without the fields of the event graph.

Also the visibility of events. Client-server API, "Room History Visibility".
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
    """`is_redacted`: a redaction has removed parts of its content."""

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
    """The JSON object in which the event is stored; `from_json` reads it."""
    stored: dict[str, Any] = {
        "event_id": event.event_id,
        "room_id": event.room_id,
        "sender": event.sender,
        "type": event.type,
        "content": event.content,
        "ts": event.origin_server_ts,
    }
    if event.state_key is not None:
        stored["state_key"] = event.state_key
    if event.redacts is not None:
        stored["redacts"] = event.redacts
    if event.is_redacted:
        stored["is_redacted"] = True
    return stored


def from_json(stored: Mapping[str, Any]) -> RoomEvent:
    return RoomEvent(
        stored["event_id"],
        stored["room_id"],
        stored["sender"],
        stored["type"],
        stored["content"],
        stored["ts"],
        stored.get("state_key"),
        stored.get("redacts"),
        stored.get("is_redacted", False),
    )


@dataclass(frozen=True, slots=True)
class StreamedEvent:
    """An event in the durable stream.

    `timeline` is a new event. `state` is an older event that state resolution has made current, `unset` one
    that it has removed from the current state. `invite` is an invite into a room without local members, and
    `invite_state` is the stripped state of that room.
    """

    position: int
    kind: EntryKind
    event: RoomEvent
    invite_state: tuple[StrippedEvent, ...] = field(default=(), repr=False)


EventFilter: TypeAlias = Callable[[RoomEvent], bool]
"""Selects events by room, type, sender or state key."""


def match_all(event: RoomEvent) -> bool:
    """The filter of a reader of all events."""
    return True


@dataclass(frozen=True, slots=True)
class Page:
    """`next` is the token of the next page in the same direction, or None if this is the last page."""

    events: Sequence[RoomEvent]
    next: str | None


@dataclass(frozen=True, slots=True)
class Context:
    """The events around an event: `before` newest first, `after` oldest first."""

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
    """A pending invite. `state` is the stripped state of the room."""

    room_id: str
    user_id: str
    sender: str
    event_id: EventId
    state: tuple[StrippedEvent, ...] = field(default=(), repr=False)


def to_room_event(shown: Pdu, original: Pdu, version: RoomVersion) -> RoomEvent:
    """The event as users see it. `shown` is the original or its redacted form."""
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
    """The member of a member event, whose content may be malformed."""
    membership, name, avatar = (event.content.get(key) for key in ("membership", "displayname", "avatar_url"))
    return Member(
        event.state_key or "",
        membership if isinstance(membership, str) else "leave",
        name if isinstance(name, str) else None,
        avatar if isinstance(avatar, str) else None,
    )


def is_visible_to_user(visibility: Mapping[str, Any] | None, membership: object, *, is_joined_now: bool) -> bool:
    """Decide by the history visibility and the user's membership before or after the event.

    "3. If the visibility was set to `shared`, and the user joined the room at any point after the event was
    sent, allow." That is true for a user who is joined now. A user who has left since sees only events sent
    while they were joined: that is less than the specification allows, but needs no search of their
    memberships.
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
    """A local event before it is built. `ts` is its `origin_server_ts`, or None for the time of sending."""

    type: str
    sender: str
    content: Mapping[str, Any]
    state_key: str | None = None
    redacts: EventId | None = None
    ts: int | None = None
