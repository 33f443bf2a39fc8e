"""Takes in what the homeserver sends: each transaction once, in its order, and on disk before it is answered.

A transaction, the events in it and their places in the stream are one commit. So one that comes again,
because its answer was lost or this process was killed, finds itself recorded and has no second effect; and
the same event in another transaction is recognised by its id. Nothing is kept in memory.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Final

from appservice.intake.received_event import MEMBER, REDACTION, ReceivedEvent, is_invite, sent_mark, to_bytes
from appservice.intake.state_entries import to_entry
from appservice.intake.transaction import Told, Transaction, wrong_id
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

KEPT: Final = timedelta(days=7)
"""For how long a repeated transaction or event is recognised. A homeserver repeats the one that failed last,
and nothing that came before it."""
MOST_WAITING: Final = 4
"""A homeserver sends one transaction at a time; after a time-out of its own there may be two."""
LATER_MS: Final = 1_000


class Intake:
    """`registration` is the id of ours. `is_ours` says of a user whether it is a ghost. `tell` is given what
    is worth something for a moment, once the transaction has been committed; `woken` is called when the
    stream has more to read, with what it is, or with nothing where it has to be looked at; and `report` is
    given a sentence on what was left out."""

    def __init__(
        self,
        registration: str,
        database: Database,
        *,
        is_ours: Callable[[str], bool],
        tell: Callable[[Told | ToDevice], None] = lambda said: None,
        woken: Callable[[Sequence[StreamedEvent]], None] = lambda entries: None,
        report: Callable[[str], None] = lambda problem: None,
    ) -> None:
        self._registration = registration
        self._database = database
        self._is_ours = is_ours
        self._tell = tell
        self._woken = woken
        self._report = report
        self._one_at_a_time = asyncio.Lock()
        self._waiting = 0

    async def take_in(self, transaction_id: str, transaction: Transaction) -> bool:
        """When it returns, all of it has been committed. Whether anything was new. Raises `MatrixError`; the
        homeserver sends the transaction again then."""
        wrong = wrong_id(transaction_id)
        if wrong is not None:
            raise MatrixError("M_INVALID_PARAM", wrong)
        if self._waiting >= MOST_WAITING:
            raise limit_exceeded("Send one transaction at a time.", 429, LATER_MS)
        self._waiting += 1
        by_id: dict[str, ReceivedEvent] = {}
        for one in transaction.events:
            by_id.setdefault(one.event.event_id, one)
        try:
            async with self._one_at_a_time:
                taken = await self._commit(transaction_id, transaction, by_id.values())
        except ConnectionLost as lost:
            # It may have been committed. Then it is recognised when it comes again.
            self._report(str(lost))
            raise MatrixError("M_UNKNOWN", "The database of this service is away: try again.", 503) from lost
        finally:
            self._waiting -= 1
        if by_id:
            # Also when it has come before: whoever took it in may have been killed before the readers knew.
            self._woken(() if taken.some_are_redacted else self._streamed(by_id.values(), taken))
        if taken.is_new:
            self._pass_on(transaction)
        return taken.is_new

    async def prune(self) -> int:
        """Forget what nobody will send again and everybody has read, and rooms that nobody of ours is in; how
        many events it was."""
        async with self._database.transaction() as connection:
            await events.lock_registration(connection, self._registration)
            await guest_rooms.prune_rooms(connection)
            await events.prune_transactions(connection, KEPT)
            return await events.prune_events(connection, KEPT)

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
            # One statement is a transaction of its own, and one round trip.
            async with self._database.autocommit() as connection:
                return await events.receive_transaction(connection, new)
        async with self._database.transaction() as connection:
            taken = await events.receive_transaction(connection, new)
            if taken.is_new:
                await self._write_device_messages(connection, transaction.to_device)
        return taken

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
        """As the stream of a homeserver tells them apart: an invite of one of ours, by somebody else, is to
        be answered. All else is news of a room that one of ours is in."""
        event = received.event
        invites_us = is_invite(event) and event.state_key is not None and self._is_ours(event.state_key)
        return "invite" if invites_us and not self._is_ours(event.sender) else "timeline"

    def _row(self, received: ReceivedEvent) -> NewEvent:
        event = received.event
        member = event.state_key if event.type == MEMBER else None
        # No column holds NUL, and no user has one in its id.
        if member is not None and "\0" in member:
            member = None
        return NewEvent(
            event.event_id,
            event.room_id,
            self._kind(received),
            member,
            sent_mark(event),
            to_bytes(received),
        )

    def _streamed(self, received: Collection[ReceivedEvent], taken: ReceiveResult) -> list[StreamedEvent]:
        """What has not been there before, with its place."""
        return [
            StreamedEvent(position, self._kind(one), one.event, one.invite_state)
            for position, one in zip(taken.positions, received, strict=False)
            if position is not None
        ]

    def _pass_on(self, transaction: Transaction) -> None:
        for said in (*transaction.ephemeral, *transaction.to_device):
            self._tell(said)
        if transaction.left_out:
            self._report(f"The homeserver sent what could not be read: {'; '.join(transaction.left_out)}.")
