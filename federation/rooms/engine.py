"""The room engine: the only writer of rooms, and their reader."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from federation.client.peer_events import FederationEventClient
from federation.events import EventId, Pdu, Signer
from federation.events.room_event import NewEvent
from federation.keys.key_ring import KeyRing
from federation.matrix.room_version import RoomVersion
from federation.observer import HomeserverObserver
from federation.rooms.commit import OutboxQueue, RoomWriter
from federation.rooms.gap_filling import GapFiller
from federation.rooms.import_room import RoomImporter
from federation.rooms.pending_joins import PendingJoins
from federation.rooms.policy_signing import PolicySigner
from federation.rooms.ports import Results
from federation.rooms.read import RoomReader
from federation.rooms.receive import EventReceiver, IncomingTransaction, RepeatedTransaction
from federation.rooms.send import LocalEventSender, NewRoom
from federation.rooms.store import RoomStore
from federation.rooms.stream import RoomStream
from federation.rooms.verify_events import EventVerifier
from storage.database import Database


class RoomGraph(RoomReader):
    """Receives, creates and reads the events of all rooms of this server.

    Invalid requests raise `MatrixError`. `report` receives a sentence about each failure of another server to
    provide events. Received events of rooms in `pending_joins` wait for the join to finish.
    """

    def __init__(
        self,
        server_name: str,
        database: Database,
        *,
        keys: KeyRing,
        peer_events: FederationEventClient,
        signer: Callable[[], Signer],
        now_ms: Callable[[], int],
        queue: OutboxQueue,
        observer: HomeserverObserver | None = None,
        report: Callable[[str], None] = lambda problem: None,
        pending_joins: PendingJoins | None = None,
    ) -> None:
        store = RoomStore(database)
        super().__init__(store)
        self.stream = RoomStream(database, store)
        verifier = EventVerifier(keys, now_ms)
        gaps = GapFiller(peer_events, verifier, store, report)
        policy = PolicySigner(server_name, peer_events, store, report)
        writer = RoomWriter(database, store, self.stream, queue, observer, now_ms)
        self._local_events = LocalEventSender(server_name, store, writer, signer, now_ms, observer, policy)
        self._receiver = EventReceiver(server_name, store, writer, verifier, gaps, policy, observer, pending_joins)
        self._importer = RoomImporter(server_name, writer, verifier)

    async def close(self) -> None:
        """Finish sending the queued events, then close the stream."""
        await self._local_events.close()
        await self.stream.close()

    async def receive(self, origin: str, events: Sequence[Any]) -> Results:
        """Receive PDUs of known rooms from another server and return the result of each. They are committed
        when it returns."""
        received = await self._receiver.receive(origin, events, None)
        assert not isinstance(received, RepeatedTransaction), "only a transaction can be repeated"
        return received

    async def receive_transaction(
        self, origin: str, events: Sequence[Any], transaction: IncomingTransaction
    ) -> Results | RepeatedTransaction:
        """Receive the PDUs of a transaction, and commit its response together with them."""
        return await self._receiver.receive(origin, events, transaction)

    async def accept_membership(self, origin: str, room_id: str, event: Any) -> Pdu:
        """Receive a join, leave or knock that another server submits for the room, and send it to all other
        servers of the room. 403 if it is not accepted. The endpoint's own checks are the caller's part."""
        return await self._receiver.accept(origin, room_id, event)

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
        """Create a local event at the head of the room. 403 if the auth rules do not allow it.

        `ts` sets its `origin_server_ts`. If the sender has used the transaction id in this room before, the
        event sent then is returned and no new one is created.
        """
        event = NewEvent(type_, sender, content, state_key, redacts, ts)
        return await self._local_events.send(room_id, event, transaction_id)

    async def fetch_history(self, peer: str, room_id: str, limit: int = 100) -> int:
        """Fetch events before the room's oldest known events from a server and return their number. They can
        be read with `backfill`, and are not published in the stream."""
        return await self._receiver.fetch_history(peer, room_id, limit)

    async def version(self, room_id: str) -> RoomVersion:
        """The version of an existing room."""
        return await self._store.version(room_id)

    async def servers_in_rooms(self, room_ids: Iterable[str]) -> dict[str, frozenset[str]]:
        """The servers joined in each of the rooms that are known."""
        rooms = await self._store.rooms(room_ids)
        return {room_id: frozenset(room.joined_servers) for room_id, room in rooms.items()}

    async def prepare_event(self, room_id: str, event: NewEvent) -> dict[str, Any]:
        """Return the template of an event at the head of the room, for `make_join`, `make_leave` and
        `make_knock`. 403 if the auth rules would not allow the event."""
        return await self._local_events.prepare(room_id, event)

    def creating_room(
        self, version: RoomVersion, events: Sequence[NewEvent], *, room_id: str | None = None
    ) -> AbstractAsyncContextManager[NewRoom]:
        """Create a room from these events, m.room.create first. It is committed when the context ends,
        together with what the context writes on the room's connection. `room_id` is given exactly where the
        room version does not derive it from the create event."""
        return self._local_events.create(version, events, room_id)

    async def create_room(
        self, version: RoomVersion, events: Sequence[NewEvent], *, room_id: str | None = None
    ) -> Sequence[Pdu]:
        """Like `creating_room`, with nothing else to commit."""
        async with self.creating_room(version, events, room_id=room_id) as new_room:
            return new_room.events

    async def import_room(
        self, origin: str, version: RoomVersion, *, state: Iterable[Any], auth_chain: Iterable[Any], event: Any
    ) -> Pdu:
        """Store a room that this server has joined through another one: the state before the join, its auth
        chain, and the join. `PeerError` if they do not make a valid room."""
        return await self._importer.run(origin, version, state, auth_chain, event)
