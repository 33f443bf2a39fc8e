"""What the bridge needs of a Matrix backend: this node's own homeserver, or one to which it is attached as an
application service.

Users of this node are named by their full Matrix ids, and an operation acts as the user it is given. A
refusal is a `MatrixError`; an operation whose effect is already there succeeds. What has returned has been
committed. Where an operation needs a `BackendCapability`, its docstring names it; without that capability it
is refused with `M_UNRECOGNIZED`.
"""

from collections.abc import AsyncIterable, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, Protocol

from federation.events.room_event import (
    Context,
    EventFilter,
    Invite,
    Member,
    Page,
    RoomEvent,
    match_all,
)
from federation.matrix.capabilities import BackendCapability
from federation.media.media import MediaInfo, OpenMedia
from federation.rooms.creation import CreatedRoom, CreateRoomRequest
from federation.transactions.edu_dispatcher import DeviceMessage, Listener, PresenceState
from federation.transactions.edus import Receipt, UserPresence

if TYPE_CHECKING:
    from federation.stream.event_stream import Subscription
    from storage.database import Connection


TYPING_LASTS_MS: Final = 30_000


class MatrixBackend(Protocol):
    """`LocalUsers` of federation and `AppserviceUsers` of appservice implement it."""

    @property
    def server_name(self) -> str: ...

    @property
    def capabilities(self) -> frozenset[BackendCapability]: ...

    def subscription(
        self, name: str, *, from_now: bool = False, wanted: EventFilter = match_all
    ) -> "AbstractAsyncContextManager[Subscription]":
        """The stream for whoever reads under this name. Entering waits for a process that reads under it.
        `from_now`: who has never read begins with what is to come, not with the first entry. `wanted` says
        which events concern the reader: all others are passed over, at next to no cost."""
        ...

    # -- users of the node --

    def ensure_user(self, user: str) -> Awaitable[None]: ...

    def profile(self, user: str) -> Awaitable[Mapping[str, Any] | None]:
        """Of anybody; None when there is no such user."""
        ...

    def set_profile(
        self, user: str, *, displayname: str | None = None, avatar_url: str | None = None
    ) -> Awaitable[None]:
        """What is None stays, and what is empty is taken out. The user's rooms are told."""
        ...

    # -- rooms and their aliases --

    def create_room(self, request: CreateRoomRequest) -> Awaitable[CreatedRoom]:
        """All of it or nothing, but for those of `request.invite` who live elsewhere. `M_ROOM_IN_USE` when
        the alias or the id is taken."""
        ...

    def upgrade_room(
        self,
        room_id: str,
        user: str,
        version: str,
        *,
        additional_creators: Sequence[str] = (),
        also: Collection[str] = (),
    ) -> Awaitable[str]:
        """Close a room and go on in another one; gives its id. `also` are further types of state to copy.
        Called again, it finishes what was begun."""
        ...

    def resolve_alias(self, alias: str) -> Awaitable[tuple[str, Sequence[str]] | None]:
        """The room and servers to join it by."""
        ...

    def create_alias(self, alias: str, room_id: str, user: str) -> Awaitable[None]:
        """`M_ROOM_IN_USE` when another room has it."""
        ...

    def remove_alias(self, alias: str) -> Awaitable[None]: ...

    def publish(self, room_id: str, *, published: bool) -> Awaitable[None]:
        """Whether the public directory lists it."""
        ...

    # -- memberships --

    # `room` is the id of a room or an alias; `via` are servers to reach it by.

    def join(
        self, room: str, user: str, *, via: Sequence[str] = (), reason: str | None = None
    ) -> Awaitable[str]:
        """Gives the room's id. It also accepts an invite."""
        ...

    def leave(self, room_id: str, user: str, *, reason: str | None = None) -> Awaitable[None]:
        """Also rejects an invite and takes back a knock."""
        ...

    def knock(
        self, room: str, user: str, *, via: Sequence[str] = (), reason: str | None = None
    ) -> Awaitable[str]: ...

    def invite(
        self, room_id: str, sender: str, user: str, *, reason: str | None = None
    ) -> Awaitable[None]: ...

    def kick(self, room_id: str, sender: str, user: str, *, reason: str | None = None) -> Awaitable[None]: ...

    def ban(self, room_id: str, sender: str, user: str, *, reason: str | None = None) -> Awaitable[None]: ...

    def unban(
        self, room_id: str, sender: str, user: str, *, reason: str | None = None
    ) -> Awaitable[None]: ...

    def joined_rooms(self, user: str) -> Awaitable[Sequence[str]]: ...

    def invites(self, user: str) -> Awaitable[Sequence[Invite]]:
        """Those that have not been answered, wherever the room is."""
        ...

    def members(
        self, room_id: str, memberships: Collection[str] = ("join",)
    ) -> Awaitable[Sequence[Member]]: ...

    def membership(self, room_id: str, user: str) -> Awaitable[str | None]:
        """None for who has never been there."""
        ...

    # -- sending --

    # Each returns the id of the event. `federation.matrix.message_content` makes contents: texts, edits,
    # reactions, replies, threads.

    def send(
        self,
        room_id: str,
        sender: str,
        type_: str,
        content: Mapping[str, Any],
        *,
        transaction_id: str | None = None,
        ts: int | None = None,
    ) -> Awaitable[str]:
        """With a transaction id it may be repeated, also after a kill: the same id of the same sender in the
        same room is the same event, for a week. `ts` is the time that the event bears, in milliseconds."""
        ...

    def set_state(
        self,
        room_id: str,
        sender: str,
        type_: str,
        content: Mapping[str, Any],
        state_key: str = "",
        *,
        ts: int | None = None,
    ) -> Awaitable[str]:
        """Nothing is sent when the state says so already. Memberships are not set by it."""
        ...

    def redact(
        self,
        room_id: str,
        sender: str,
        event_id: str,
        *,
        reason: str | None = None,
        transaction_id: str | None = None,
    ) -> Awaitable[str]:
        """One's own events, or others' with the power for it."""
        ...

    # -- spaces and server ACLs --

    def add_to_space(
        self, space_id: str, room_id: str, user: str, *, order: str | None = None, suggested: bool = False
    ) -> Awaitable[None]:
        """The space says it, and the room does too where the user may."""
        ...

    def remove_from_space(self, space_id: str, room_id: str, user: str) -> Awaitable[None]: ...

    def server_acl(self, room_id: str) -> Awaitable[Mapping[str, Any] | None]:
        """As the room has it; None if it has none."""
        ...

    def set_server_acl(
        self,
        room_id: str,
        user: str,
        *,
        allow: Sequence[str] = ("*",),
        deny: Sequence[str] = (),
        allow_ip_literals: bool = True,
    ) -> Awaitable[None]:
        """Refused where it would shut this node out."""
        ...

    # -- reading --

    # Events with redactions applied. `reader` is a user as whom to look: what the history's visibility hides
    # from that user is left out. Without one it is the node that looks.

    def state(self, room_id: str, type_: str | None = None) -> Awaitable[Sequence[RoomEvent]]:
        """The current state, or what it has of one type."""
        ...

    def state_event(self, room_id: str, type_: str, state_key: str = "") -> Awaitable[RoomEvent | None]: ...

    def event(
        self, room_id: str, event_id: str, *, reader: str | None = None
    ) -> Awaitable[RoomEvent | None]: ...

    def messages(
        self,
        room_id: str,
        *,
        start: str | None = None,
        backwards: bool = True,
        limit: int = 50,
        reader: str | None = None,
    ) -> Awaitable[Page]:
        """The timeline, state events among it. `start` is `next` of a page before, or None for the end of the
        room it begins at. Going backwards, what is not known here is fetched from other servers."""
        ...

    def relations(
        self,
        room_id: str,
        event_id: str,
        rel_type: str | None = None,
        *,
        limit: int = 100,
        reader: str | None = None,
    ) -> Awaitable[Sequence[RoomEvent]]:
        """What relates to the event, oldest first: `m.replace`, `m.annotation`, `m.thread`, `m.reference`,
        `m.in_reply_to`."""
        ...

    def context(
        self, room_id: str, event_id: str, *, limit: int = 10, reader: str | None = None
    ) -> Awaitable[Context | None]: ...

    # -- ephemeral --

    # What is worth something for a moment. It is known to the process that was told.

    def set_typing(
        self, room_id: str, user: str, *, typing: bool, lasts_ms: int = TYPING_LASTS_MS
    ) -> Awaitable[None]: ...

    def set_presence(
        self, user: str, presence: PresenceState, *, status: str | None = None
    ) -> Awaitable[None]: ...

    def mark_read(
        self, room_id: str, user: str, event_id: str, *, thread_id: str | None = None
    ) -> Awaitable[None]: ...

    def typing(self, room_id: str) -> Collection[str]: ...

    def presence(self, user: str) -> UserPresence | None: ...

    def receipts(self, room_id: str) -> Awaitable[Sequence[Receipt]]: ...

    def listen(self, edu_type: str, listener: Listener) -> Callable[[], None]:
        """Call the listener for each EDU of a type (see `federation.transactions.edu_dispatcher`). Returns a
        function that ends it."""
        ...

    def send_edu(
        self, room_id: str, edu_type: str, content: Mapping[str, Any], *, name: str = ""
    ) -> Awaitable[None]:
        """To all other servers of a room, within a minute. A newer one of this type and name takes the place
        of one that still waits. Needs `BackendCapability.EDUS`."""
        ...

    def device_messages(self, user: str, *, limit: int = 100) -> Awaitable[Sequence[DeviceMessage]]:
        """The oldest that wait. Needs `BackendCapability.TO_DEVICE`."""
        ...

    def forget_device_messages(
        self, connection: "Connection", user: str, positions: Collection[int]
    ) -> Awaitable[None]:
        """They have been read: in the transaction that commits what was made of them."""
        ...

    # -- media --

    def upload(
        self,
        user: str,
        content: bytes | AsyncIterable[bytes],
        content_type: str | None = None,
        file_name: str | None = None,
    ) -> Awaitable[MediaInfo]: ...

    def download(self, mxc: str) -> AbstractAsyncContextManager[OpenMedia]: ...
