"""Receives the homeserver's transactions: each exactly once, in order, and committed before the response.

A transaction, its events and their positions in the stream are one commit. A repeated transaction, because
the response was lost or this process was killed, finds itself recorded and has no second effect; the same
event in another transaction is recognised by its id. Nothing is kept in memory.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Final

from appservice.intake.received_event import MEMBER, REDACTION, ReceivedEvent, is_invite, sent_mark, to_bytes
from appservice.intake.state_entries import to_entry
from appservice.intake.transaction import EphemeralEvent, Transaction, transaction_id_problem
from federation.events.room_event import StreamedEvent
from federation.matrix.canonical_json import encode
from federation.matrix.errors import MatrixError, limit_exceeded
from federation.transactions.edu_dispatcher import MAX_DEVICE_MESSAGES
from federation.transactions.edus import ToDevice
from storage.appservice import events
from storage.appservice import rooms as guest_rooms
from storage.appservice.events import NewEvent, NewTransaction, ReceiveResult, Redaction
from storage.connect import ConnectionLost
from storage.database import Connection, Database
from storage.federation.edus import NewMessage, insert_messages
from storage.rooms.stream import Kind

RETENTION: Final = timedelta(days=7)
"""How long a repeated transaction or event is recognised. A homeserver repeats only the transaction that
failed last."""
MAX_WAITING: Final = 4
"""A homeserver sends one transaction at a time; after its own timeout there may be two."""
RETRY_AFTER_MS: Final = 1_000


class Intake:
    """`registration` is the id of this node's registration. `is_ours` decides whether a user is a ghost.
    `publish` receives ephemeral data and to-device messages after the commit. `on_events` is called when the
    stream has new events: with those events, or with an empty sequence if the stream has to be read. `report`
    receives a sentence about skipped entries."""

    def __init__(
        self,
        registration: str,
        database: Database,
        *,
        is_ours: Callable[[str], bool],
        publish: Callable[[EphemeralEvent | ToDevice], None] = lambda item: None,
        on_events: Callable[[Sequence[StreamedEvent]], None] = lambda entries: None,
        report: Callable[[str], None] = lambda problem: None,
    ) -> None:
        self._registration = registration
        self._database = database
        self._is_ours = is_ours
        self._publish = publish
        self._on_events = on_events
        self._report = report
        self._one_at_a_time = asyncio.Lock()
        self._waiting = 0

    async def receive(self, transaction_id: str, transaction: Transaction) -> bool:
        """On return everything is committed. Return whether the transaction was new. Raises `MatrixError`;
        the homeserver then repeats the transaction."""
        wrong = transaction_id_problem(transaction_id)
        if wrong is not None:
            raise MatrixError("M_INVALID_PARAM", wrong)
        if self._waiting >= MAX_WAITING:
            raise limit_exceeded("Send one transaction at a time.", 429, RETRY_AFTER_MS)
        self._waiting += 1
        by_id: dict[str, ReceivedEvent] = {}
        for one in transaction.events:
            by_id.setdefault(one.event.event_id, one)
        try:
            async with self._one_at_a_time:
                result = await self._commit(transaction_id, transaction, by_id.values())
        except ConnectionLost as lost:
            # The transaction may have been committed; a repetition is recognised.
            self._report(str(lost))
            raise MatrixError(
                "M_UNKNOWN", "The database of this application service is unavailable: try again.", 503
            ) from lost
        finally:
            self._waiting -= 1
        if by_id:
            # Also for a repeated transaction: the process that committed it may have been killed before it
            # notified readers.
            self._on_events(() if result.some_are_redacted else self._streamed(by_id.values(), result))
        if result.is_new:
            self._publish_ephemeral(transaction)
        return result.is_new

    async def prune(self) -> int:
        """Delete transactions and events that are read and past retention, and rooms without ghosts. Return
        the number of deleted events."""
        async with self._database.transaction() as connection:
            await events.lock_registration(connection, self._registration)
            await guest_rooms.prune_rooms(connection)
            await events.prune_transactions(connection, RETENTION)
            return await events.prune_events(connection, RETENTION)

    async def _commit(
        self, transaction_id: str, transaction: Transaction, received: Collection[ReceivedEvent]
    ) -> ReceiveResult:
        new = NewTransaction(
            self._registration,
            transaction_id,
            transaction.digest,
            [self._row(one) for one in received],
            [to_entry(one, self._is_ours) for one in received if one.event.state_key is not None],
            [
                Redaction(one.event.redacts, one.event.event_id, one.event.room_id)
                for one in received
                if one.event.type == REDACTION and one.event.redacts is not None
            ],
        )
        if not transaction.to_device:
            # One statement is a transaction of its own and takes one round trip.
            async with self._database.autocommit() as connection:
                return await events.receive_transaction(connection, new)
        async with self._database.transaction() as connection:
            result = await events.receive_transaction(connection, new)
            if result.is_new:
                await self._write_device_messages(connection, transaction.to_device)
        return result

    async def _write_device_messages(self, connection: Connection, messages: Sequence[ToDevice]) -> None:
        rows = [
            NewMessage(user, device, message.sender, message.type, encode(content, strict=False))
            for message in messages
            for user, devices in message.messages.items()
            if self._is_ours(user)
            for device, content in devices.items()
        ]
        await insert_messages(connection, rows, MAX_DEVICE_MESSAGES)

    def _kind(self, received: ReceivedEvent) -> Kind:
        """Classified as in a homeserver's stream: an invite of a ghost by a user who is no ghost is an invite
        to answer; everything else is timeline."""
        event = received.event
        invites_us = is_invite(event) and event.state_key is not None and self._is_ours(event.state_key)
        return "invite" if invites_us and not self._is_ours(event.sender) else "timeline"

    def _row(self, received: ReceivedEvent) -> NewEvent:
        event = received.event
        member = event.state_key if event.type == MEMBER else None
        # Postgres text cannot hold NUL, and no valid user id contains it.
        if member is not None and "\0" in member:
            member = None
        return NewEvent(
            event.event_id, event.room_id, self._kind(received), member, sent_mark(event), to_bytes(received)
        )

    def _streamed(self, received: Collection[ReceivedEvent], result: ReceiveResult) -> list[StreamedEvent]:
        """The new events with their positions in the stream."""
        return [
            StreamedEvent(position, self._kind(one), one.event, one.invite_state)
            for position, one in zip(result.positions, received, strict=False)
            if position is not None
        ]

    def _publish_ephemeral(self, transaction: Transaction) -> None:
        for item in (*transaction.ephemeral, *transaction.to_device):
            self._publish(item)
        if transaction.skipped:
            self._report(f"The homeserver sent entries that could not be parsed: {'; '.join(transaction.skipped)}.")
