"""What is worth something for a moment, as those who listen are told of it, and messages to devices.

Who is typing where, and until when that is believed. A machine: time is given to it.

What is worth something for a moment, as it comes in: kept as long as it is worth it, and told to those who
listen. Messages to devices, which are worth more, are kept until they are read.

What is kept here is known to this process alone; another one on the same database is told by its own port.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from cachetools import LRUCache

from federation.matrix.canonical_json import encode
from federation.matrix.identifiers import domain
from federation.transactions.edu_values import (
    DeviceListUpdate,
    Other,
    Presence,
    PresenceOfUser,
    Receipt,
    Receipts,
    SigningKeyUpdate,
    ToDevice,
    Typing,
)
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Connection, Database
from storage.federation.edus import NewMessage, insert_messages
from storage.rooms.outside_memberships import OutsideMembership
from storage.rooms.rooms import fetch_rooms_of_users

PresenceState = Literal["online", "unavailable", "offline"]


@dataclass(frozen=True, slots=True)
class TypingNow:
    """All who are typing in a room, sorted."""

    room_id: str
    user_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OtherFrom:
    """An EDU of a type that the specification does not have, and the server that sent it. Nothing of its
    content has been checked."""

    origin: str
    edu: Other


@dataclass(frozen=True, slots=True)
class DeviceMessage:
    """A message to a device of a user of this server; `*` stands for all of them. It is kept until it is
    forgotten."""

    position: int
    user_id: str
    device_id: str
    sender: str
    type: str
    content: Mapping[str, Any] = field(repr=False)


Ephemeral = TypingNow | Receipt | PresenceOfUser | DeviceListUpdate | SigningKeyUpdate | ToDevice | OtherFrom
"""Of a `ToDevice` the messages can be read when this is heard."""
Listener = Callable[[Ephemeral], None]
"""It returns at once."""


def edu_type(said: Ephemeral) -> str:
    """The type under which somebody listens for it."""
    match said:
        case TypingNow():
            return "m.typing"
        case Receipt():
            return "m.receipt"
        case PresenceOfUser():
            return "m.presence"
        case DeviceListUpdate():
            return "m.device_list_update"
        case ToDevice():
            return "m.direct_to_device"
        case SigningKeyUpdate():
            return "m.signing_key_update"
        case OtherFrom():
            return said.edu.edu_type


MOST_IN_ROOM: Final = 100
MOST: Final = 10_000
"""Of all rooms together. Whoever is beyond types unseen."""


class TypingBoard:
    def __init__(self, *, most: int = MOST, most_in_room: int = MOST_IN_ROOM) -> None:
        self._most = most
        self._most_in_room = most_in_room
        self._rooms: dict[str, dict[str, int]] = {}
        self._count = 0
        # Of what was put; what was put again or taken away since is passed over.
        self._ends: list[tuple[int, str, str]] = []

    def put(self, room_id: str, user: str, until_ms: int) -> bool:
        """The user types until then, unless put again. Whether that is news."""
        users = self._rooms.get(room_id, {})
        is_new = user not in users
        if is_new and (self._count >= self._most or len(users) >= self._most_in_room):
            return False
        self._count += is_new
        self._rooms.setdefault(room_id, {})[user] = until_ms
        heapq.heappush(self._ends, (until_ms, room_id, user))
        if len(self._ends) > 2 * self._most + 100:
            self._ends = [
                (until, room, who) for room, them in self._rooms.items() for who, until in them.items()
            ]
            heapq.heapify(self._ends)
        return is_new

    def remove(self, room_id: str, user: str) -> bool:
        """Whether the user was typing."""
        users = self._rooms.get(room_id, {})
        if users.pop(user, None) is None:
            return False
        self._count -= 1
        if not users:
            del self._rooms[room_id]
        return True

    def expire(self, now_ms: int) -> list[tuple[str, str]]:
        """Rooms and users of whom it is believed no more, in the order in which they ended."""
        ended = []
        while (deadline := self.deadline()) is not None and deadline <= now_ms:
            _, room_id, user = heapq.heappop(self._ends)
            self.remove(room_id, user)
            ended.append((room_id, user))
        return ended

    def deadline(self) -> int | None:
        """When the next one ends."""
        while self._ends:
            until, room_id, user = self._ends[0]
            if self._rooms.get(room_id, {}).get(user) == until:
                return until
            heapq.heappop(self._ends)
        return None

    def users(self, room_id: str) -> tuple[str, ...]:
        return tuple(sorted(self._rooms.get(room_id, {})))


TYPING_BELIEVED_MS: Final = 60_000
"""A server that types on says so again before."""
MOST_PRESENT: Final = 10_000
MOST_WAITING: Final = 5_000
"""Presences of users of whom it is not known yet whether anybody here meets them."""
MOST_DEVICE_MESSAGES: Final = 1_000
"""That wait for one user."""


class EphemeralNews:
    """`seen_by` is told what users of other servers have read, `woken` is called when the stream has more
    to read, and `report` is given a sentence about a listener that fell over. It runs between `start` and
    `close`."""

    def __init__(
        self,
        server_name: str,
        database: Database,
        *,
        now_ms: Callable[[], int],
        seen_by: Callable[[str, Iterable[str]], None] = lambda server, event_ids: None,
        woken: Callable[[], None] = lambda: None,
        report: Callable[[str], None] = lambda problem: None,
    ) -> None:
        self._server_name = server_name
        self._database = database
        self._seen_by = seen_by
        self._now_ms = now_ms
        self._woken = woken
        self._report = report
        self._listeners: dict[str, list[Listener]] = {}
        self._board = TypingBoard()
        self._timer: asyncio.TimerHandle | None = None
        self._presence: LRUCache[str, PresenceOfUser] = LRUCache(MOST_PRESENT)
        self._waiting: dict[str, PresenceOfUser] = {}
        self._tasks = BackgroundTasks(limit=1)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.close()

    # -- for those who listen and read --

    def listen(self, type_: str, listener: Listener) -> Callable[[], None]:
        """What is given ends it, and does so once."""
        listeners = self._listeners.setdefault(type_, [])
        listeners.append(listener)

        def end() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return end

    def tell(self, said: Ephemeral) -> None:
        """One who falls over is no harm to the others, nor to whoever tells."""
        for listener in tuple(self._listeners.get(edu_type(said), ())):
            try:
                listener(said)
            except Exception as error:
                self._report(f"A listener to {edu_type(said)} fell over: {error!r}")

    def typing_in(self, room_id: str) -> tuple[str, ...]:
        return self._board.users(room_id)

    def presence_of(self, user: str) -> PresenceOfUser | None:
        return self._presence.get(user)

    # -- what is known here --

    def type_here(self, room_id: str, user: str, *, typing: bool, lasts_ms: int) -> bool:
        """Whether it is news. Who does not say so again has stopped when the time is over; the listeners are
        told of that too."""
        if typing:
            changed = self._board.put(room_id, user, self._now_ms() + lasts_ms)
        else:
            changed = self._board.remove(room_id, user)
        if changed:
            self._tell_typing(room_id)
        self._set_timer()
        return changed

    def be_present(self, user: PresenceOfUser) -> None:
        self._presence[user.user_id] = user
        self.tell(user)

    # -- what other servers say --

    def typing(self, typing: Typing) -> None:
        self.type_here(typing.room_id, typing.user_id, typing=typing.typing, lasts_ms=TYPING_BELIEVED_MS)

    def receipts(self, receipts: Receipts) -> None:
        for receipt in receipts.receipts:
            self._seen_by(domain(receipt.user_id) or "", [receipt.event_id])
            self.tell(receipt)

    def presence(self, presence: Presence) -> None:
        """Kept of those whom somebody here meets in a room, which has to be looked up."""
        for user in presence.users:
            if user.user_id in self._waiting or len(self._waiting) < MOST_WAITING:
                self._waiting[user.user_id] = user
        if self._waiting and not self._tasks.is_full:
            self._tasks.spawn("presence of users elsewhere", self._look_up_present())

    def device_list(self, update: DeviceListUpdate | SigningKeyUpdate) -> None:
        self.tell(update)

    def other(self, origin: str, edu: Other) -> None:
        """A type that the specification does not have; nothing of its content has been checked."""
        self.tell(OtherFrom(origin, edu))

    async def to_device(self, connection: Connection, message: ToDevice) -> None:
        """Write it down, in the transaction that also remembers that it was received. Called once for each
        message."""
        rows = [
            NewMessage(user, device, message.sender, message.type, encode(content, strict=False))
            for user, devices in message.messages.items()
            if domain(user) == self._server_name
            for device, content in devices.items()
        ]
        await insert_messages(connection, rows, MOST_DEVICE_MESSAGES)
        self._database.after_commit(connection, partial(self.tell, message))

    def invited(self, invite: OutsideMembership, problem: str | None) -> None:
        """An invite from outside has been kept and has its place in the stream. `problem`: what is wrong with
        how the room is shown, where that is no reason to refuse."""
        self._woken()

    # -- inside --

    def _tell_typing(self, room_id: str) -> None:
        self.tell(TypingNow(room_id, self._board.users(room_id)))

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self._board.deadline()
        if deadline is not None:
            wait = max(0, deadline - self._now_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(wait, self._expire)

    def _expire(self) -> None:
        rooms = {room_id for room_id, _ in self._board.expire(self._now_ms())}
        for room_id in sorted(rooms):
            self._tell_typing(room_id)
        self._set_timer()

    async def _look_up_present(self) -> None:
        while self._waiting:
            users, self._waiting = self._waiting, {}
            try:
                async with self._database.transaction(readonly=True) as connection:
                    met = await fetch_rooms_of_users(connection, users)
            except ConnectionLost:
                continue  # worth nothing by the time it is back
            for user in users.values():
                if user.user_id in met:
                    self.be_present(user)
