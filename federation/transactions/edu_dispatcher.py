"""Distributes EDUs, received and local, to listeners in this process, and keeps the current typing and
presence.

Typing and presence are kept in memory of this process only; another process on the same database knows what
it receives itself. To-device messages are stored in the database until they are deleted.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from cachetools import LRUCache

from federation.matrix.canonical_json import encode
from federation.matrix.identifiers import domain
from federation.transactions.edus import (
    CustomEdu,
    DeviceListUpdate,
    Presence,
    Receipt,
    Receipts,
    SigningKeyUpdate,
    ToDevice,
    Typing,
    UserPresence,
)
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Connection, Database
from storage.federation.edus import NewMessage, insert_messages
from storage.rooms.outside_memberships import OutsideMembership
from storage.rooms.rooms import fetch_rooms_of_users


@dataclass(frozen=True, slots=True)
class TypingUsers:
    """All users typing in a room, sorted."""

    room_id: str
    user_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReceivedCustomEdu:
    """A custom EDU and the server that sent it. Its content has not been validated."""

    origin: str
    edu: CustomEdu


@dataclass(frozen=True, slots=True)
class DeviceMessage:
    """A stored to-device message for a user of this server; the device `*` means all devices."""

    position: int
    user_id: str
    device_id: str
    sender: str
    type: str
    content: Mapping[str, Any] = field(repr=False)


EduUpdate = TypingUsers | Receipt | UserPresence | DeviceListUpdate | SigningKeyUpdate | ToDevice | ReceivedCustomEdu
"""When a listener receives a `ToDevice`, its messages are stored and can be read."""
Listener = Callable[[EduUpdate], None]
"""Called from the event loop; must not block."""


def edu_type(update: EduUpdate) -> str:
    """Return the EDU type under which listeners register for this update."""
    match update:
        case TypingUsers():
            return "m.typing"
        case Receipt():
            return "m.receipt"
        case UserPresence():
            return "m.presence"
        case DeviceListUpdate():
            return "m.device_list_update"
        case ToDevice():
            return "m.direct_to_device"
        case SigningKeyUpdate():
            return "m.signing_key_update"
        case ReceivedCustomEdu():
            return update.edu.edu_type


MAX_TYPING_IN_ROOM: Final = 100
MAX_TYPING: Final = 10_000
"""Limit for all rooms together. Typing beyond it is ignored."""


class TypingTracker:
    """The users typing in each room, each until a deadline. The caller passes the time.

    `put`, `remove` and `expire` keep the counts; a user beyond a limit is ignored."""

    def __init__(self, *, max_users: int = MAX_TYPING, max_in_room: int = MAX_TYPING_IN_ROOM) -> None:
        self._most = max_users
        self._most_in_room = max_in_room
        self._rooms: dict[str, dict[str, int]] = {}
        self._count = 0
        # A heap of deadlines. Entries of users whose deadline was changed or who were removed are skipped.
        self._ends: list[tuple[int, str, str]] = []

    def put(self, room_id: str, user: str, until_ms: int) -> bool:
        """Record that the user is typing until then. Return whether the user was not typing before."""
        users = self._rooms.get(room_id, {})
        is_new = user not in users
        if is_new and (self._count >= self._most or len(users) >= self._most_in_room):
            return False
        self._count += is_new
        self._rooms.setdefault(room_id, {})[user] = until_ms
        heapq.heappush(self._ends, (until_ms, room_id, user))
        if len(self._ends) > 2 * self._most + 100:
            self._ends = [(until, room, who) for room, them in self._rooms.items() for who, until in them.items()]
            heapq.heapify(self._ends)
        return is_new

    def remove(self, room_id: str, user: str) -> bool:
        """Return whether the user was typing."""
        users = self._rooms.get(room_id, {})
        if users.pop(user, None) is None:
            return False
        self._count -= 1
        if not users:
            del self._rooms[room_id]
        return True

    def expire(self, now_ms: int) -> list[tuple[str, str]]:
        """Remove the users whose deadline has passed; return (room, user) in the order of the deadlines."""
        ended = []
        while (deadline := self.deadline()) is not None and deadline <= now_ms:
            _, room_id, user = heapq.heappop(self._ends)
            self.remove(room_id, user)
            ended.append((room_id, user))
        return ended

    def deadline(self) -> int | None:
        """Return the next deadline."""
        while self._ends:
            until, room_id, user = self._ends[0]
            if self._rooms.get(room_id, {}).get(user) == until:
                return until
            heapq.heappop(self._ends)
        return None

    def users(self, room_id: str) -> tuple[str, ...]:
        return tuple(sorted(self._rooms.get(room_id, {})))


REMOTE_TYPING_TIMEOUT_MS: Final = 60_000
"""A server repeats the notification earlier than this while its user keeps typing."""
MAX_PRESENT: Final = 10_000
MAX_PENDING_PRESENCE: Final = 5_000
"""Presence updates of users for whom it has not been checked yet whether they share a room with a local
user."""
MAX_DEVICE_MESSAGES: Final = 1_000
"""Stored to-device messages per user."""


class EduDispatcher:
    """Passes EDUs to the listeners in this process, and keeps the current typing and presence.

    `on_events_seen` receives the events that users of other servers have read, `wake_readers` is called
    when the stream has new entries, and `report` receives a sentence about each listener that raised an
    exception. Call `close` at the end."""

    def __init__(
        self,
        server_name: str,
        database: Database,
        *,
        now_ms: Callable[[], int],
        on_events_seen: Callable[[str, Iterable[str]], None] = lambda server, event_ids: None,
        wake_readers: Callable[[], None] = lambda: None,
        report: Callable[[str], None] = lambda problem: None,
    ) -> None:
        self._server_name = server_name
        self._database = database
        self._seen_by = on_events_seen
        self._now_ms = now_ms
        self._wake_readers = wake_readers
        self._report = report
        self._listeners: dict[str, list[Listener]] = {}
        self._typing = TypingTracker()
        self._timer: asyncio.TimerHandle | None = None
        self._presence: LRUCache[str, UserPresence] = LRUCache(MAX_PRESENT)
        self._pending_presence: dict[str, UserPresence] = {}
        self._tasks = BackgroundTasks(limit=1)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.close()

    # -- listeners and readers --

    def listen(self, type_: str, listener: Listener) -> Callable[[], None]:
        """Register a listener. The returned function removes it and may be called several times."""
        listeners = self._listeners.setdefault(type_, [])
        listeners.append(listener)

        def end() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return end

    def notify(self, update: EduUpdate) -> None:
        """Call the listeners for the update's type. An exception of one does not affect the others or the
        caller."""
        for listener in tuple(self._listeners.get(edu_type(update), ())):
            try:
                listener(update)
            except Exception as error:
                self._report(f"A listener for {edu_type(update)} failed: {error!r}")

    def typing_users(self, room_id: str) -> tuple[str, ...]:
        return self._typing.users(room_id)

    def presence_of(self, user: str) -> UserPresence | None:
        return self._presence.get(user)

    # -- changes of local users --

    def set_typing(self, room_id: str, user: str, *, typing: bool, timeout_ms: int) -> bool:
        """Record that the user is or is not typing, and return whether that is a change.

        Typing ends after `timeout_ms` unless it is repeated. Listeners are notified of both."""
        if typing:
            changed = self._typing.put(room_id, user, self._now_ms() + timeout_ms)
        else:
            changed = self._typing.remove(room_id, user)
        if changed:
            self._notify_typing(room_id)
        self._set_timer()
        return changed

    def set_presence(self, user: UserPresence) -> None:
        self._presence[user.user_id] = user
        self.notify(user)

    # -- EDUs from other servers --

    def handle_typing(self, typing: Typing) -> None:
        self.set_typing(typing.room_id, typing.user_id, typing=typing.typing, timeout_ms=REMOTE_TYPING_TIMEOUT_MS)

    def handle_receipts(self, receipts: Receipts) -> None:
        for receipt in receipts.receipts:
            self._seen_by(domain(receipt.user_id) or "", [receipt.event_id])
            self.notify(receipt)

    def handle_presence(self, presence: Presence) -> None:
        """Keep the presence of users that share a room with a local user, which is looked up in the
        background."""
        for user in presence.users:
            if user.user_id in self._pending_presence or len(self._pending_presence) < MAX_PENDING_PRESENCE:
                self._pending_presence[user.user_id] = user
        if self._pending_presence and not self._tasks.is_full:
            self._tasks.spawn("presence of remote users", self._look_up_presence())

    def handle_device_update(self, update: DeviceListUpdate | SigningKeyUpdate) -> None:
        self.notify(update)

    def handle_custom(self, origin: str, edu: CustomEdu) -> None:
        """Notify the listeners of a custom EDU, whose content has not been validated."""
        self.notify(ReceivedCustomEdu(origin, edu))

    async def handle_to_device(self, connection: Connection, message: ToDevice) -> None:
        """Store a message in the database transaction that records its receipt. Call it once for each
        message."""
        rows = [
            NewMessage(user, device, message.sender, message.type, encode(content, strict=False))
            for user, devices in message.messages.items()
            if domain(user) == self._server_name
            for device, content in devices.items()
        ]
        await insert_messages(connection, rows, MAX_DEVICE_MESSAGES)
        self._database.after_commit(connection, partial(self.notify, message))

    def invited(self, invite: OutsideMembership, problem: str | None) -> None:
        """A federated invite was stored and has a position in the stream. `problem` describes invalid
        `invite_room_state`, which is not a reason to refuse the invite."""
        self._wake_readers()

    # -- inside --

    def _notify_typing(self, room_id: str) -> None:
        self.notify(TypingUsers(room_id, self._typing.users(room_id)))

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self._typing.deadline()
        if deadline is not None:
            wait = max(0, deadline - self._now_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(wait, self._expire)

    def _expire(self) -> None:
        rooms = {room_id for room_id, _ in self._typing.expire(self._now_ms())}
        for room_id in sorted(rooms):
            self._notify_typing(room_id)
        self._set_timer()

    async def _look_up_presence(self) -> None:
        while self._pending_presence:
            users, self._pending_presence = self._pending_presence, {}
            try:
                async with self._database.transaction(readonly=True) as connection:
                    met = await fetch_rooms_of_users(connection, users)
            except ConnectionLost:
                continue  # the presence would be outdated by the time Postgres is back
            for user in users.values():
                if user.user_id in met:
                    self.set_presence(user)
