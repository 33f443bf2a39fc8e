"""The interface between the bridge and its Matrix backend: this node's own homeserver, or one to which it is
attached as an application service.

Users of this node are given as full Matrix user ids, and an operation acts as its user. A refusal is a
`MatrixError`; an operation whose effect already exists succeeds. On return the effect is committed. If an
operation needs a `BackendCapability`, its docstring names it; without that capability it raises
`M_UNRECOGNIZED`.
"""

from collections.abc import AsyncIterable, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, Protocol

from federation.events.room_event import Context, EventFilter, Invite, Member, Page, RoomEvent, match_all
from federation.matrix.capabilities import BackendCapability
from federation.media.media import MediaInfo, OpenMedia
from federation.rooms.creation import CreatedRoom, CreateRoomRequest
from federation.transactions.edu_dispatcher import DeviceMessage, Listener
from federation.transactions.edus import PresenceState, Receipt, UserPresence

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
        """Read the event stream as the reader with this name. Entering waits while another process reads
        under the name. With `from_now` a new reader starts at the end of the stream instead of its beginning.
        `wanted` selects the events that concern the reader; all others are skipped at almost no cost."""
        ...

    # -- users of the node --

    def ensure_user(self, user: str) -> Awaitable[None]: ...

    def profile(self, user: str) -> Awaitable[Mapping[str, Any] | None]:
        """Of any user; None if there is no such user."""
        ...

    def set_profile(
        self, user: str, *, displayname: str | None = None, avatar_url: str | None = None
    ) -> Awaitable[None]:
        """None leaves a field unchanged, an empty string removes it. The user's rooms are notified."""
        ...

    # -- rooms and their aliases --

    def create_room(self, request: CreateRoomRequest) -> Awaitable[CreatedRoom]:
        """Create the whole room or nothing; only invites of remote users may fail. Raises `M_ROOM_IN_USE` if
        the alias or room id is taken."""
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
        """Replace the room by a new one and return the new room id. `also` are further state types to copy. A
        repeated call completes an interrupted upgrade."""
        ...

    def resolve_alias(self, alias: str) -> Awaitable[tuple[str, Sequence[str]] | None]:
        """Return the room id and servers to join through."""
        ...

    def create_alias(self, alias: str, room_id: str, user: str) -> Awaitable[None]:
        """Raises `M_ROOM_IN_USE` if it is an alias of another room."""
        ...

    def remove_alias(self, alias: str) -> Awaitable[None]: ...

    def publish(self, room_id: str, *, published: bool) -> Awaitable[None]:
        """Set whether the public room directory lists the room."""
        ...

    # -- memberships --

    # `room` is a room id or alias; `via` are servers to join through.

    def join(self, room: str, user: str, *, via: Sequence[str] = (), reason: str | None = None) -> Awaitable[str]:
        """Return the room id. Also accepts an invite."""
        ...

    def leave(self, room_id: str, user: str, *, reason: str | None = None) -> Awaitable[None]:
        """Also rejects an invite and retracts a knock."""
        ...

    def knock(self, room: str, user: str, *, via: Sequence[str] = (), reason: str | None = None) -> Awaitable[str]: ...

    def invite(self, room_id: str, sender: str, user: str, *, reason: str | None = None) -> Awaitable[None]: ...

    def kick(self, room_id: str, sender: str, user: str, *, reason: str | None = None) -> Awaitable[None]: ...

    def ban(self, room_id: str, sender: str, user: str, *, reason: str | None = None) -> Awaitable[None]: ...

    def unban(self, room_id: str, sender: str, user: str, *, reason: str | None = None) -> Awaitable[None]: ...

    def joined_rooms(self, user: str) -> Awaitable[Sequence[str]]: ...

    def invites(self, user: str) -> Awaitable[Sequence[Invite]]:
        """The user's open invites, also to rooms on other servers."""
        ...

    def members(self, room_id: str, memberships: Collection[str] = ("join",)) -> Awaitable[Sequence[Member]]: ...

    def membership(self, room_id: str, user: str) -> Awaitable[str | None]:
        """None for a user who was never in the room."""
        ...

    # -- sending --

    # Each returns the event id. `federation.matrix.message_content` builds contents: text, edits, reactions,
    # replies, threads.

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
        """With a transaction id the call may be repeated, also after a kill: the same id of the same sender
        in the same room is the same event, for a week. `ts` is the event's timestamp in milliseconds."""
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
        """Sends nothing if the state already has this content. Not for memberships."""
        ...

    def redact(
        self, room_id: str, sender: str, event_id: str, *, reason: str | None = None, transaction_id: str | None = None
    ) -> Awaitable[str]:
        """The sender's own events, or others' with the power level for it."""
        ...

    # -- spaces and server ACLs --

    def add_to_space(
        self, space_id: str, room_id: str, user: str, *, order: str | None = None, suggested: bool = False
    ) -> Awaitable[None]:
        """Set the space's child event, and the room's parent event if the user may."""
        ...

    def remove_from_space(self, space_id: str, room_id: str, user: str) -> Awaitable[None]: ...

    def server_acl(self, room_id: str) -> Awaitable[Mapping[str, Any] | None]:
        """Return the content of the room's server ACL; None if it has none."""
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
        """Refused if it would exclude this node."""
        ...

    # -- reading --

    # Events are returned with redactions applied. With a `reader`, events that the history visibility hides
    # from that user are omitted; without one the node itself reads.

    def state(self, room_id: str, type_: str | None = None) -> Awaitable[Sequence[RoomEvent]]:
        """Return the current state, or its events of one type."""
        ...

    def state_event(self, room_id: str, type_: str, state_key: str = "") -> Awaitable[RoomEvent | None]: ...

    def event(self, room_id: str, event_id: str, *, reader: str | None = None) -> Awaitable[RoomEvent | None]: ...

    def messages(
        self,
        room_id: str,
        *,
        start: str | None = None,
        backwards: bool = True,
        limit: int = 50,
        reader: str | None = None,
    ) -> Awaitable[Page]:
        """Return a page of the timeline, including state events. `start` is the `next` of a previous page, or
        None for the end of the room where reading begins. Reading backwards fetches missing history from
        other servers."""
        ...

    def relations(
        self, room_id: str, event_id: str, rel_type: str | None = None, *, limit: int = 100, reader: str | None = None
    ) -> Awaitable[Sequence[RoomEvent]]:
        """Events related to the event, oldest first: `m.replace`, `m.annotation`, `m.thread`, `m.reference`,
        `m.in_reply_to`."""
        ...

    def context(
        self, room_id: str, event_id: str, *, limit: int = 10, reader: str | None = None
    ) -> Awaitable[Context | None]: ...

    # -- ephemeral --

    # EduUpdate data is known to the process that received it.

    def set_typing(
        self, room_id: str, user: str, *, typing: bool, lasts_ms: int = TYPING_LASTS_MS
    ) -> Awaitable[None]: ...

    def set_presence(self, user: str, presence: PresenceState, *, status: str | None = None) -> Awaitable[None]: ...

    def mark_read(self, room_id: str, user: str, event_id: str, *, thread_id: str | None = None) -> Awaitable[None]: ...

    def typing(self, room_id: str) -> Collection[str]: ...

    def presence(self, user: str) -> UserPresence | None: ...

    def receipts(self, room_id: str) -> Awaitable[Sequence[Receipt]]: ...

    def listen(self, edu_type: str, listener: Listener) -> Callable[[], None]:
        """Call the listener for each EDU of a type, as `federation.transactions.edu_dispatcher` defines them.
        Return a function that unsubscribes it."""
        ...

    def send_edu(self, room_id: str, edu_type: str, content: Mapping[str, Any], *, name: str = "") -> Awaitable[None]:
        """Send to all other servers of a room within a minute. A newer EDU of the same type and name replaces
        one that is still queued. Needs `BackendCapability.EDUS`."""
        ...

    def device_messages(self, user: str, *, limit: int = 100) -> Awaitable[Sequence[DeviceMessage]]:
        """The oldest unread messages. Needs `BackendCapability.TO_DEVICE`."""
        ...

    def forget_device_messages(
        self, connection: "Connection", user: str, positions: Collection[int]
    ) -> Awaitable[None]:
        """Delete messages in the transaction that commits their effects."""
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
