"""The one writer of every room, and its reader."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from federation.client.peer_events import FederationEvents
from federation.events import EventId, Pdu, Signer
from federation.events.room_event import NewEvent
from federation.keys.key_ring import KeyRing
from federation.matrix.room_version import RoomVersion
from federation.observer import HomeserverObserver
from federation.rooms.commit import OwnQueue, RoomWriting
from federation.rooms.gap_filling import GapFiller
from federation.rooms.import_room import RoomImport
from federation.rooms.pending_joins import Arrivals
from federation.rooms.policy_signing import PolicySigning
from federation.rooms.ports import Results
from federation.rooms.read import RoomReading
from federation.rooms.receive import Reception, Repeated, Transaction
from federation.rooms.send import NewRoom, OwnEvents
from federation.rooms.store import RoomStore
from federation.rooms.stream import RoomStream
from federation.rooms.verify_events import EventExaminer
from storage.database import Database


class RoomGraph(RoomReading):
    """What asks for something impossible is a `MatrixError`. `report` is given a sentence about what another
    server could not or would not give. Events of rooms in `arrivals` wait for them."""

    def __init__(
        self,
        server_name: str,
        database: Database,
        *,
        keys: KeyRing,
        peer_events: FederationEvents,
        signer: Callable[[], Signer],
        now_ms: Callable[[], int],
        queue: OwnQueue,
        observer: HomeserverObserver | None = None,
        report: Callable[[str], None] = lambda problem: None,
        arrivals: Arrivals | None = None,
    ) -> None:
        store = RoomStore(database)
        super().__init__(store)
        self.stream = RoomStream(database, store)
        examiner = EventExaminer(keys, now_ms)
        gaps = GapFiller(peer_events, examiner, store, report)
        policy = PolicySigning(server_name, peer_events, store, report)
        writing = RoomWriting(database, store, self.stream, queue, observer, now_ms)
        self._own_events = OwnEvents(server_name, store, writing, signer, now_ms, observer, policy)
        self._reception = Reception(server_name, store, writing, examiner, gaps, policy, observer, arrivals)
        self._import = RoomImport(server_name, writing, examiner)

    async def close(self) -> None:
        """Finish what was begun."""
        await self._own_events.close()
        await self.stream.close()

    async def receive(self, origin: str, events: Sequence[Any]) -> Results:
        """Receive PDUs of known rooms from another server; each with what became of it. They are committed
        when it returns."""
        received = await self._reception.receive(origin, events, None)
        assert not isinstance(received, Repeated), "only a transaction can be repeated"
        return received

    async def receive_transaction(
        self, origin: str, events: Sequence[Any], transaction: Transaction
    ) -> Results | Repeated:
        """The same of the PDUs of a transaction. What it is answered is committed together with them."""
        return await self._reception.receive(origin, events, transaction)

    async def accept_membership(self, origin: str, room_id: str, event: Any) -> Pdu:
        """A join, leave or knock that another server hands us for the room. It is sent on to all others. 403
        when it is not accepted; what the endpoint itself has to check comes before."""
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
        """Make an event of ours at the head of the room. 403 when the rules do not allow it. `ts` is the time
        that it bears. What a sender has sent into a room with a transaction id is not made again."""
        event = NewEvent(type_, sender, content, state_key, redacts, ts)
        return await self._own_events.send(room_id, event, transaction_id)

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
        """The template of an event at the head of the room, for `make_join` and its like. 403 when the rules
        would not allow it."""
        return await self._own_events.prepare(room_id, event)

    def creating_room(
        self, version: RoomVersion, events: Sequence[NewEvent], *, room_id: str | None = None
    ) -> AbstractAsyncContextManager[NewRoom]:
        """Make a room of these events, m.room.create first. All or nothing: what is written in the context is
        committed with it. `room_id` is given where the version does not make it from the create event."""
        return self._own_events.create(version, events, room_id)

    async def create_room(
        self, version: RoomVersion, events: Sequence[NewEvent], *, room_id: str | None = None
    ) -> Sequence[Pdu]:
        """The same, where nothing else belongs to it."""
        async with self.creating_room(version, events, room_id=room_id) as new_room:
            return new_room.events

    async def import_room(
        self,
        origin: str,
        version: RoomVersion,
        *,
        state: Iterable[Any],
        auth_chain: Iterable[Any],
        event: Any,
    ) -> Pdu:
        """Receive the room that another server let us join: the state before the join, its auth chain, and
        the join. `PeerError` when what it gave is no room."""
        return await self._import.run(origin, version, state, auth_chain, event)
