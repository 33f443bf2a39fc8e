"""Events as those who live in rooms see them: what was said, without what holds the history together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from federation.pdu import EventId, Pdu
from federation.room_version import RoomVersion
from federation.stripped_state import Stripped

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
    invite_state: tuple[Stripped, ...] = field(default=(), repr=False)


class EventHead(Protocol):
    """By what a reader of the stream tells that an event does not concern it."""

    @property
    def room_id(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def sender(self) -> str: ...

    @property
    def state_key(self) -> str | None: ...


Wanted: TypeAlias = Callable[[EventHead], bool]


Foresees: TypeAlias = Callable[[RoomEvent], None]
"""Is shown an event that is being written, and may come, or may not: whoever will read it can look at what it
says already. Nothing may follow from that, and what is kept for its coming is little."""


def everything(event: EventHead) -> bool:
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
    state: tuple[Stripped, ...] = field(default=(), repr=False)


def as_seen(shown: Pdu, original: Pdu, version: RoomVersion) -> RoomEvent:
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
