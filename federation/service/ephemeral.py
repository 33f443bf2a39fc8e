"""What is worth something for a moment, as it comes in: kept as long as it is worth it, and told to those who
listen. Messages to devices, which are worth more, are kept until they are read.

What is kept here is known to this process alone; another one on the same database is told by its own port.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from federation.bounded_cache import BoundedCache
from federation.canonical_json import encode
from federation.edu import (
    DeviceListUpdate,
    Other,
    Presence,
    PresenceOfUser,
    Receipts,
    SigningKeyUpdate,
    ToDevice,
    Typing,
)
from federation.ephemeral import Ephemeral, Listener, OtherFrom, TypingNow, edu_type
from federation.identifiers import domain
from federation.service.commit_watch import CommitWatch
from federation.typing_board import TypingBoard
from storage.connecting import ConnectionLost
from storage.current_state import fetch_rooms_of_users
from storage.database import Connection, Database
from storage.outside_memberships import OutsideMembership
from storage.to_device import NewMessage, insert_messages, transaction_id

TYPING_BELIEVED_MS: Final = 60_000
"""A server that types on says so again before."""
MOST_PRESENT: Final = 10_000
MOST_WAITING: Final = 5_000
"""Presences of users of whom it is not known yet whether anybody here meets them."""
MOST_DEVICE_MESSAGES: Final = 1_000
"""That wait for one user."""


class EphemeralNews:
    """Satisfies `federation.service.edus.EduListener` and `membership_requests.InviteListener`. `seen_by` is
    told what users of other servers have read, `woken` is called when the stream has something to read, and
    `report` is given a sentence about a listener that fell over. It runs between `start` and `close`."""

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
        self._presence: BoundedCache[str, PresenceOfUser] = BoundedCache(MOST_PRESENT)
        self._waiting: dict[str, PresenceOfUser] = {}
        self._looking: asyncio.Task[None] | None = None
        self._watch: CommitWatch[ToDevice] = CommitWatch(database, self._tell_all)

    def start(self) -> None:
        self._watch.start()

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._watch.close()

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
        self._presence.put(user.user_id, user)
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
        if self._waiting and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look_up_present())

    def device_list(self, update: DeviceListUpdate | SigningKeyUpdate) -> None:
        self.tell(update)

    def other(self, origin: str, edu: Other) -> None:
        self.tell(OtherFrom(origin, edu))

    async def to_device(self, connection: Connection, message: ToDevice) -> None:
        rows = [
            NewMessage(user, device, message.sender, message.type, encode(content, strict=False))
            for user, devices in message.messages.items()
            if domain(user) == self._server_name
            for device, content in devices.items()
        ]
        await insert_messages(connection, rows, MOST_DEVICE_MESSAGES)
        self._watch.add(await transaction_id(connection), [message], connection)

    def invited(self, invite: OutsideMembership, problem: str | None) -> None:
        """It has its place in the stream already."""
        self._woken()

    # -- inside --

    def _tell_all(self, messages: list[ToDevice]) -> None:
        for message in messages:
            self.tell(message)

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
