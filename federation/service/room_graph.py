"""The one writer of every room, and its reader."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from federation.pdu import EventId, Pdu, Signer
from federation.room_version import RoomVersion
from federation.service.arrivals import Arrivals
from federation.service.event_examiner import EventExaminer
from federation.service.gap_filling import GapFiller
from federation.service.own_events import OwnEvents
from federation.service.policy_signing import PolicySigning
from federation.service.reception import Reception
from federation.service.room_import import RoomImport
from federation.service.room_ports import (
    AnsweredWith,
    CommitHook,
    InCommit,
    InCreation,
    Keys,
    NewEvent,
    OwnQueue,
    PeerEvents,
    Results,
    RoomObserver,
)
from federation.service.room_reading import RoomReading
from federation.service.room_store import RoomStore
from federation.service.room_stream import RoomStream
from federation.service.room_writing import RoomWriting
from storage.database import Database


class RoomGraph(RoomReading):
    """Satisfies `room_ports.Rooms`, which says what each operation does. `report` is given a sentence about
    what another server could not or would not give. What comes of rooms in `arrivals` waits for them."""

    def __init__(
        self,
        server_name: str,
        database: Database,
        *,
        keys: Keys,
        peer_events: PeerEvents,
        signer: Callable[[], Signer],
        now_ms: Callable[[], int],
        on_commit: CommitHook | None = None,
        queue: OwnQueue | None = None,
        observer: RoomObserver | None = None,
        report: Callable[[str], None] = lambda problem: None,
        arrivals: Arrivals | None = None,
    ) -> None:
        store = RoomStore(database)
        super().__init__(store)
        self.stream = RoomStream(database, store)
        examiner = EventExaminer(keys, now_ms)
        gaps = GapFiller(peer_events, examiner, store, report)
        policy = PolicySigning(server_name, peer_events, store, report)
        writing = RoomWriting(
            database,
            store,
            on_commit,
            observer,
            self.stream.wake,
            foresee=self.stream.foresee,
            queue=queue,
            now_ms=now_ms,
        )
        self._own_events = OwnEvents(server_name, store, writing, signer, now_ms, observer, policy)
        self._reception = Reception(server_name, store, writing, examiner, gaps, policy, observer, arrivals)
        self._import = RoomImport(server_name, writing, examiner)

    async def close(self) -> None:
        """Finish what was begun."""
        await self._own_events.close()
        await self.stream.close()

    async def receive(
        self,
        origin: str,
        events: Sequence[Any],
        *,
        in_commit: InCommit | None = None,
        answered: AnsweredWith | None = None,
    ) -> Results:
        return await self._reception.receive(origin, events, in_commit, answered)

    async def accept_membership(self, origin: str, room_id: str, event: Any) -> Pdu:
        return await self._reception.accept(origin, room_id, event)

    async def send_event(
        self,
        room_id: str,
        type_: str,
        content: Mapping[str, Any],
        sender: str,
        state_key: str | None = None,
        *,
        redacts: EventId | None = None,
        ts: int | None = None,
        transaction_id: str | None = None,
    ) -> Pdu:
        event = NewEvent(type_, sender, content, state_key, redacts, ts)
        return await self._own_events.send(room_id, event, transaction_id)

    def make_ready(self, room_id: str, type_: str, content: Mapping[str, Any], sender: str) -> None:
        """What will perhaps be sent in a moment: this very content."""
        self._own_events.make_ready(room_id, NewEvent(type_, sender, content))

    async def fetch_history(self, peer: str, room_id: str, limit: int = 100) -> int:
        """Ask a server for what lies before the oldest events that are known here, to be read with
        `backfill`; how many events that brought. Nobody is told of them by the stream."""
        return await self._reception.fetch_history(peer, room_id, limit)

    async def version(self, room_id: str) -> RoomVersion:
        """Of a room that there is."""
        return await self._store.version(room_id)

    async def servers_in_rooms(self, room_ids: Iterable[str]) -> dict[str, frozenset[str]]:
        """Of those of the rooms that are known."""
        memories = await self._store.rooms(room_ids)
        return {room_id: frozenset(memory.joined) for room_id, memory in memories.items()}

    async def prepare_event(self, room_id: str, event: NewEvent) -> dict[str, Any]:
        return await self._own_events.prepare(room_id, event)

    async def create_room(
        self,
        version: RoomVersion,
        events: Sequence[NewEvent],
        *,
        room_id: str | None = None,
        in_commit: InCreation | None = None,
    ) -> list[Pdu]:
        return await self._own_events.create(version, events, room_id, in_commit)

    async def import_room(
        self,
        origin: str,
        version: RoomVersion,
        *,
        state: Iterable[Any],
        auth_chain: Iterable[Any],
        event: Any,
    ) -> Pdu:
        return await self._import.run(origin, version, state, auth_chain, event)
