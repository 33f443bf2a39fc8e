"""One writer for each room, in this process and among all processes on the database; and one commit."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from federation.errors import MatrixError
from federation.known_event import KnownEvent
from federation.pdu import EventId, Pdu
from federation.room_version import RoomVersion
from federation.service.room_commit import (
    Outcome,
    Plain,
    remember,
    words_after,
    words_heard,
    words_of,
    write_drafts,
)
from federation.service.room_draft import RoomDraft
from federation.service.room_ports import CommitHook, OwnQueue, RoomObserver
from federation.service.room_store import RoomMemory, RoomStore
from storage.connecting import ConnectionLost
from storage.database import Connection, Database
from storage.hearing import hear
from storage.incoming_transactions import Answered
from storage.room_stream import StreamRow
from storage.rooms import lock_rooms
from storage.saying import say
from storage.sent_transactions import Sent

Named = Mapping[Sent, EventId]
"""Events by the names under which they are found when they are sent again."""


@dataclass(slots=True)
class _RoomLock:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0


@dataclass(slots=True)
class Session:
    """Rooms that nobody else writes to until the context ends, when all is committed together."""

    connection: Connection
    drafts: dict[str, RoomDraft]
    origin: str | None
    _store: RoomStore
    _observer: RoomObserver | None

    def room(self, room_id: str) -> RoomDraft:
        draft = self.drafts.get(room_id)
        if draft is None:
            raise MatrixError("M_NOT_FOUND", "This server does not know that room.", 404)
        return draft

    async def new_room(self, room_id: str, version: RoomVersion) -> RoomDraft:
        """A room that is made in this session, which has to hold its id."""
        draft = await RoomDraft.of_new_room(self._store, self.connection, room_id, version, self._observer)
        self.drafts[room_id] = draft
        return draft


class RoomWriting:
    """`committed` is called with what readers of the stream have to read, if there is something, and whether
    it is known that no redaction asks for any of it; `foresee` with a message while it is written, which may
    come to nothing. Without a `queue` all is written in transactions."""

    def __init__(
        self,
        database: Database,
        store: RoomStore,
        on_commit: CommitHook | None,
        observer: RoomObserver | None,
        committed: Callable[[Sequence[StreamRow], bool], None],
        *,
        foresee: Callable[[Pdu], None] = lambda pdu: None,
        queue: OwnQueue | None = None,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self._database = database
        self._store = store
        self._on_commit = on_commit
        self._observer = observer
        self._committed = committed
        self._foresee = foresee
        self._queue = queue
        self._now_ms = now_ms
        self._locks: dict[str, _RoomLock] = {}

    @contextlib.asynccontextmanager
    async def session(self, room_ids: Iterable[str], origin: str | None) -> AsyncIterator[Session]:
        """`origin` is the server that gave us the events, None for ours."""
        # In one order, here and in the database, so that no two who need the same rooms wait for each other.
        wanted = sorted(set(room_ids))
        async with contextlib.AsyncExitStack() as stack:
            for room_id in wanted:
                await stack.enter_async_context(self._alone_in(room_id))
            async with self._database.transaction() as connection:
                drafts = {}
                for row in await lock_rooms(connection, wanted):
                    memory = await self._store.room_of(row, connection)
                    drafts[row.room_id] = RoomDraft(self._store, connection, memory, self._observer)
                session = Session(connection, drafts, origin, self._store, self._observer)
                yield session
                outcome = await write_drafts(connection, drafts.values(), origin)
                if outcome.committed and self._on_commit is not None:
                    await self._on_commit(connection, outcome.committed)
            remember(self._store, drafts.values(), outcome)
            if outcome.told:
                self._committed(outcome.told, False)

    async def say_plainly(
        self, room_id: str, make: Callable[[RoomMemory], Plain | None]
    ) -> Sequence[Pdu] | None:
        """The plain messages that `make` makes for a room as this process remembers it, written by one
        statement. None: it cannot make them. Nothing in it: they have not been written, and a session shows
        why."""
        queue = self._queue
        if queue is None or self._store.remembered_room(room_id) is None:
            return None
        room = await self._enter(room_id)
        try:
            memory = self._store.remembered_room(room_id)
            plain = None if memory is None else make(memory)
            if memory is None or plain is None:
                return None
            words, outcome = words_after(memory, plain, queue)
            async with self._database.statements() as connection:
                said = await say(connection, words, self._now_ms())
            if said is None:
                return ()
            # First it is sent: nothing of what follows is waited for elsewhere, and nothing comes in between.
            queue.queued(outcome.committed, said.queued)
            for event in plain.events:
                self._store.remember_event(event)
            self._store.remember_room(outcome.memories[0])
        finally:
            self._leave(room_id, room)
        self._committed(said.told, True)
        return [event.pdu for event in plain.events]

    async def say(self, room_id: str, make: Callable[[RoomDraft], Awaitable[Named | None]]) -> bool:
        """Messages at the head of a room as this process remembers it, written by one statement. `make`
        places them and says under which names they are sent, or None if it cannot. False: nothing has been
        written, and a session shows why."""
        queue = self._queue
        if queue is None:
            return False
        async with self._alone_in(room_id):
            memory = self._store.remembered_room(room_id)
            if memory is None:
                return False
            async with self._database.statements() as connection:
                draft = RoomDraft(self._store, connection, memory, self._observer)
                sent = await make(draft)
                made = None if sent is None else await words_of(draft, sent, queue.to_queue)
                if made is None:
                    return False
                words, outcome = made
                servers = {destination for destination, _ in words.queue}
                words = replace(words, offered=queue.offered(servers))
                said = await say(connection, words, self._now_ms())
            if said is None:
                return False
            remember(self._store, [draft], outcome)
        queue.queued(outcome.committed, said.queued)
        # Nobody can have asked for it before: its id is a hash of what has just been made.
        self._committed(said.told, True)
        return True

    async def hear(
        self, room_id: str, origin: str, take: Callable[[RoomDraft], Awaitable[Answered | None]]
    ) -> bool:
        """Messages that a server has sent for the head of a room as this process remembers it, written by one
        statement. `take` judges them and says what the server is answered, or None if more is to be done.
        False: nothing has been written, or nobody knows, and a session shows why."""
        queue = self._queue
        if queue is None:
            return False
        async with self._alone_in(room_id):
            memory = self._store.remembered_room(room_id)
            if memory is None:
                return False
            try:
                async with self._database.statements() as connection:
                    draft = RoomDraft(self._store, connection, memory, self._observer)
                    answered = await take(draft)
                    made = None if answered is None else await words_of(draft, {}, lambda _: [], origin)
                    if answered is None or made is None:
                        return False
                    words, outcome = made
                    told = await hear(connection, words, answered)
            except ConnectionLost:
                return False
            if not told:
                return False
            remember(self._store, [draft], outcome)
        await self._heard(queue, outcome, told)
        return True

    async def hear_plainly(self, event: KnownEvent, origin: str, answer: Callable[[], Answered]) -> bool:
        """A message that a server has sent, which was judged by the state that its room is to have, written
        by one statement with what is answered. False, as above, also where the room has another state or ends
        elsewhere by now."""
        queue, pdu = self._queue, event.pdu
        if queue is None:
            return False
        room = await self._enter(pdu.room_id)
        try:
            memory = self._store.remembered_room(pdu.room_id)
            if memory is None or not self._follows(event, memory):
                return False
            words, outcome = words_heard(memory, event, origin)
            answered = answer()
            async with self._database.statements() as connection:
                # The statement goes out at the end of this turn of the loop. In the next one there is nothing
                # to do but to wait for Postgres.
                asyncio.get_running_loop().call_soon(self._foresee, pdu)
                told = await hear(connection, words, answered)
            if not told:
                return False
            self._store.remember_event(event)
            self._store.remember_room(outcome.memories[0])
        except ConnectionLost:
            return False
        finally:
            self._leave(pdu.room_id, room)
        await self._heard(queue, outcome, told)
        return True

    def _follows(self, event: KnownEvent, memory: RoomMemory) -> bool:
        """Whether it is new, and comes after the only end of the graph, with the state that the room has."""
        view, pdu = memory.view, event.pdu
        if (
            len(pdu.prev_events) != 1
            or pdu.prev_events != view.forward_extremities
            or view.state_group != event.state_before
            or self._store.remembered_event(pdu.event_id) is not None
        ):
            return False
        end = self._store.remembered_event(pdu.prev_events[0])
        return end is not None and end.state_after == view.state_group

    async def _heard(self, queue: OwnQueue, outcome: Outcome, told: Sequence[StreamRow]) -> None:
        self._committed(told, True)
        try:
            # Its readers go first: they wait for the database soon, and the server is answered meanwhile.
            await asyncio.sleep(0)
        finally:
            queue.queued(outcome.committed, ())  # everybody sends what is his own

    @contextlib.asynccontextmanager
    async def _alone_in(self, room_id: str) -> AsyncIterator[None]:
        room = await self._enter(room_id)
        try:
            yield
        finally:
            self._leave(room_id, room)

    async def _enter(self, room_id: str) -> _RoomLock:
        room = self._locks.get(room_id)
        if room is None:
            room = self._locks[room_id] = _RoomLock()
        room.users += 1
        try:
            await room.lock.acquire()
        except BaseException:
            self._forget(room_id, room)
            raise
        return room

    def _leave(self, room_id: str, room: _RoomLock) -> None:
        room.lock.release()
        self._forget(room_id, room)

    def _forget(self, room_id: str, room: _RoomLock) -> None:
        room.users -= 1
        if not room.users:
            del self._locks[room_id]
