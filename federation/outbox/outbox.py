"""Sends events and EDUs to other servers. They are queued in Postgres together with the data they belong
to.

One sender runs for each server with queued items. An advisory lock decides in which process it runs. When
that process is killed, another one continues from the queue in Postgres.

A process notifies the others when it has queued items for a server that one of them sends to, or has
received a request from that server.
"""

import asyncio
import contextlib
import json
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from federation.caches import WeightedCache
from federation.client.client import TIMEOUT, FederationClient
from federation.events import EventId
from federation.matrix.canonical_json import decode, encode
from federation.observer import HomeserverObserver, QueueDepth
from federation.outbox.destination import DestinationView, State
from federation.outbox.messages import Input, PeerRequest, QueuedItems
from federation.outbox.queue import DestinationQueue, FirstAttempt, RecentPdus
from federation.outbox.retry_schedule import Contact, Contacts
from federation.outbox.send_queue import EduRef, PduRef
from federation.outbox.sender import IDLE_TIMEOUT, DestinationSender
from federation.rooms.ports import CommittedEvent
from federation.transactions.outgoing_edus import OutgoingEdu
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Connection, Database
from storage.federation import outbox
from storage.federation import outbox as outages
from storage.federation.outbox import StoredPdu

MAX_NOTICE_BYTES: Final = 7_900
"""Postgres refuses notifications of 8,000 bytes."""


class Notice(NamedTuple):
    destination: str
    messages: tuple[Input, ...]
    """For the sender of that destination."""


def encode_notices(destination: str, unhandled: Sequence[Input]) -> Iterator[str]:
    """Encode the messages for another process, in as few notifications as possible. Ephemeral EDUs are
    left out: only this process has their content, and they would be late."""
    queued = [message for message in unhandled if isinstance(message, QueuedItems)]
    pdus = [[pdu.position, pdu.room_id] for one in queued for pdu in one.pdus]
    edus = [edu.position for one in queued for edu in one.edus if not edu.ephemeral]
    yield from _split({"destination": destination, "pdus": pdus, "edus": edus})
    if any(isinstance(message, PeerRequest) for message in unhandled):
        yield json.dumps({"destination": destination, "heard": True})


def _split(notice: dict[str, Any]) -> Iterator[str]:
    pdus, edus = notice["pdus"], notice["edus"]
    if not pdus and not edus:
        return
    text = json.dumps(notice)
    if len(text) <= MAX_NOTICE_BYTES:
        yield text
        return
    for half in (slice(None, len(pdus) // 2), slice(len(pdus) // 2, None)):
        other = slice(None, len(edus) // 2) if half.start is None else slice(len(edus) // 2, None)
        yield from _split({**notice, "pdus": pdus[half], "edus": edus[other]})


def parse_notice(text: str) -> Notice:
    notice = decode(text.encode())
    if notice.get("heard") is True:
        return Notice(notice["destination"], (PeerRequest(),))
    pdus = tuple(PduRef(position, room_id) for position, room_id in notice["pdus"])
    queued = QueuedItems(pdus, tuple(EduRef(position) for position in notice["edus"]))
    return Notice(notice["destination"], (queued,))


TOPIC: Final = "outbox"
SWEEP_INTERVAL: Final = 15.0
"""Seconds between two sweeps over all queues. A sweep finds items that were queued without a notice or
left by a process that ended, and counts them."""
STALLED_AFTER_MS: Final = 30_000
CLOSE_TIMEOUT: Final = 2.0
"""Seconds for which `close` waits for the senders to delete delivered rows from Postgres."""
RESTART_DELAY: Final = 5.0
"""Seconds before a failed sender is replaced."""

MAX_RECENT_BYTES: Final = 4 * 1024 * 1024
"""Bytes of queued events that are cached. Others are read from the database."""


class Outbox:
    def __init__(
        self,
        server_name: str,
        database: Database,
        client: FederationClient,
        *,
        now_ms: Callable[[], int],
        may_contact: Callable[[str], bool] = lambda _: True,
        observer: HomeserverObserver | None = None,
        jitter: Callable[[], float] = random.random,
        sweep: float = SWEEP_INTERVAL,
        idle_timeout: float = IDLE_TIMEOUT,
        timeout: float = TIMEOUT,
    ) -> None:
        """`timeout`: seconds that a server has to respond to a transaction. Runs between `start` and
        `close`."""
        self._server_name = server_name
        self._database = database
        self._client = client
        self._now_ms = now_ms
        self._may_contact = may_contact
        self._observer: HomeserverObserver = observer or HomeserverObserver()
        self._jitter = jitter
        self._sweep_every = sweep
        self._idle_timeout = idle_timeout
        self._timeout = timeout
        self._end_subscription: Callable[[], None] = lambda: None
        # None before `start` and after `close`: nothing is sent then.
        self._epoch: str | None = None
        # Events that this process has just queued: they need not be read from the database.
        self._recent: RecentPdus = WeightedCache(MAX_RECENT_BYTES, lambda pdu: len(pdu.canonical))
        self._contacts = Contacts()
        self._with_backlog: set[str] = set()
        self._senders: dict[str, DestinationSender] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._tasks = BackgroundTasks()
        self._sweep_now = asyncio.Event()

    async def start(self) -> None:
        """Begin to send, including what was queued before."""
        async with self._database.autocommit() as connection:
            self._epoch = await outbox.fetch_epoch(connection)
        self._end_subscription = self._database.session.subscribe(TOPIC, self._notified)
        self._tasks.supervise("outbox", self._keep_sweeping)

    async def close(self) -> None:
        """Stop sending. Requests are cancelled and nothing is lost. Takes `CLOSE_TIMEOUT` at most."""
        self._epoch = None
        self._end_subscription()
        for sender in self._senders.values():
            # A stopping sender deletes delivered rows, which would otherwise be sent once more.
            sender.stop()
        if self._running:
            await asyncio.wait(self._running.values(), timeout=CLOSE_TIMEOUT)
        await self._tasks.close()

    # -- queueing --

    def queue_entries(self, committed: Sequence[CommittedEvent]) -> list[tuple[str, EventId]]:
        """Return (server, event id) for each queue row to be written in the transaction that stores the
        events."""
        return [
            (destination, event.pdu.event_id)
            for event in committed
            for destination in sorted(self._reachable(event.destinations))
        ]

    def notify_queued(self, committed: Sequence[CommittedEvent], rows: Sequence[outbox.QueuedPdu]) -> None:
        """Notify the senders of committed queue rows and cache their events."""
        self._mark_prev_events_seen(committed)
        pdus = {event.pdu.event_id: event.pdu for event in committed}
        queued: dict[str, list[PduRef]] = {}
        for destination, event_id, position in rows:
            pdu = pdus[event_id]
            self._recent[position] = StoredPdu(position, event_id, pdu.canonical)
            queued.setdefault(destination, []).append(PduRef(position, pdu.room_id))
        for destination, refs in queued.items():
            self._notify(destination, QueuedItems(pdus=tuple(refs)))

    def _mark_prev_events_seen(self, committed: Sequence[CommittedEvent]) -> None:
        """A server has the events to which its own events refer."""
        for event in committed:
            if event.origin is not None:
                self.mark_seen(event.origin, event.pdu.prev_events)

    async def queue_edu(self, connection: Connection, destinations: Collection[str], edu: OutgoingEdu) -> None:
        """Queue an EDU that must be delivered, in the caller's database transaction."""
        assert edu.max_age_ms is None, "an EDU that may be lost is sent with send_lossy"
        to = sorted(self._reachable(destinations))
        content = encode(dict(edu.content))
        for row in await outbox.queue_edu(connection, to, edu.edu_type, content, self._now_ms()):
            self._notify_after_commit(connection, row.destination, QueuedItems(edus=(EduRef(row.position),)))

    def send_lossy(self, destinations: Collection[str], edu: OutgoingEdu) -> None:
        """Send an EDU that may be lost. Servers that do not respond do not receive it."""
        for destination in self._reachable(destinations):
            sender = self._sender(destination)
            if sender is not None:
                sender.send_lossy(edu)

    def _reachable(self, destinations: Iterable[str]) -> set[str]:
        return {name for name in destinations if name != self._server_name and self._may_contact(name)}

    # -- the state of servers --

    def request_received(self, server: str) -> None:
        """Record that an authenticated request arrived from the server: it is online, so its queue is
        sent."""
        self._contacts.request_received(server, self._now_ms())
        sender = self._senders.get(server)
        if sender is not None:
            sender.receive(PeerRequest())
        elif server in self._with_backlog:
            # Another process sends to it. It is notified, but only once until the next sweep.
            self._with_backlog.discard(server)
            self._notify(server, PeerRequest())

    def retry(self, server: str) -> None:
        """Retry a server now, in this process or in the one that sends to it. As after a request from the
        server, attempts are at least five seconds apart, and its `retry_after_ms` is respected."""
        if self._reachable([server]):
            self._notify(server, PeerRequest())

    def mark_seen(self, server: str, event_ids: Iterable[str]) -> None:
        """Record that the server has these events: it has referred to them, or one of its users has read
        them."""
        sender = self._senders.get(server)
        if sender is not None:
            sender.mark_seen(event_ids)

    def view(self) -> dict[str, DestinationView]:
        """Return the state of each destination to which this process sends."""
        views = {destination: sender.view() for destination, sender in self._senders.items()}
        return {destination: view for destination, view in views.items() if view is not None}

    def first_attempt(self, server: str) -> FirstAttempt | None:
        """Return when the transaction in flight to the server was first sent, if this process sends it."""
        sender = self._senders.get(server)
        return None if sender is None else sender.first_attempt()

    def contact(self, server: str) -> Contact:
        """Return when this process last reached the server and last received a request from it."""
        return self._contacts.of(server)

    def contacts(self) -> frozenset[str]:
        """Return the servers that this process has had contact with."""
        return self._contacts.servers()

    # -- senders --

    def _notify_after_commit(self, connection: Connection, destination: str, message: QueuedItems) -> None:
        """If it is unknown whether the transaction was committed, the next sweep finds its rows."""
        self._database.after_commit(connection, partial(self._notify, destination, message))

    def _notify(self, destination: str, message: Input) -> None:
        sender = self._sender(destination)
        if sender is not None:
            sender.receive(message)

    def _sender(self, destination: str) -> DestinationSender | None:
        """Return the sender for the destination, starting it if needed; None while the outbox is not
        running."""
        if self._epoch is None:
            return None
        sender = self._senders.get(destination)
        if sender is None:
            queue = DestinationQueue(
                self._server_name, destination, self._database, self._epoch, self._recent, self._observer
            )
            sender = self._senders[destination] = DestinationSender(
                destination,
                queue,
                self._client,
                now_ms=self._now_ms,
                jitter=self._jitter,
                observer=self._observer,
                contacts=self._contacts,
                idle_timeout=self._idle_timeout,
                timeout=self._timeout,
            )
            task = self._tasks.spawn("outbox sender", self._run(destination, sender))
            self._running[destination] = task
            task.add_done_callback(partial(self._sender_ended, destination, sender))
        return sender

    async def _run(self, destination: str, sender: DestinationSender) -> None:
        """Run a sender under the destination's lease until it ends."""
        has_failed = False
        try:
            lease = await self._database.session.try_lease(f"outbox {destination}")
            if lease is None:
                self._remove_sender(destination, sender)
                for text in encode_notices(destination, sender.unhandled()):
                    self._database.session.notify(TOPIC, text)
                return
            async with lease:
                try:
                    await sender.run()
                except Exception as error:
                    has_failed = True
                    self._observer.problem(f"The sender to {destination} failed; a new one replaces it.", error)
                    await asyncio.sleep(RESTART_DELAY)
        except ConnectionLost:
            # The lease may be held by another process now. A sweep finds the queued items.
            self._sweep_now.set()
            return
        finally:
            self._remove_sender(destination, sender)
        if has_failed or sender.unhandled():
            # A new sender counts the queue again.
            self._sender(destination)

    def _remove_sender(self, destination: str, sender: DestinationSender) -> None:
        if self._senders.get(destination) is sender:
            del self._senders[destination]

    def _sender_ended(self, destination: str, sender: DestinationSender, task: asyncio.Task[None]) -> None:
        # A task that was cancelled before it began did not run its `finally`.
        self._remove_sender(destination, sender)
        if self._running.get(destination) is task:
            del self._running[destination]

    # -- other processes --

    def _notified(self, text: str | None) -> None:
        if text is None:
            self._sweep_now.set()
            return
        destination, messages = parse_notice(text)
        sender = self._senders.get(destination)
        if sender is not None:
            for message in messages:
                sender.receive(message)

    # -- sweeping --

    async def _keep_sweeping(self) -> None:
        while True:
            self._sweep_now.clear()
            await self._sweep()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._sweep_every):
                    await self._sweep_now.wait()

    async def _sweep(self) -> None:
        async with self._database.transaction(readonly=True) as connection:
            waiting = await outbox.list_destinations(connection)
            depths = await outbox.list_depths(connection)
            away = await outages.list_outages(connection)
        now = self._now_ms()
        # A server whose retry is far away needs no sender, and so no advisory lock, until then.
        next_sweeps = now + int(2_000 * self._sweep_every)
        self._with_backlog = self._reachable(waiting)
        for destination in sorted(self._with_backlog):
            if destination not in away or away[destination].retry_at <= next_sweeps:
                self._sender(destination)
        depths_by_server = [QueueDepth(one.destination, one.pdus, one.edus, max(0, now - one.oldest)) for one in depths]
        self._observer.queue_depths(depths_by_server)
        for one in depths_by_server:
            self._restart_stalled(one.destination, one.lag_ms)

    def _restart_stalled(self, destination: str, lag_ms: int) -> None:
        """Restart a sender that is idle while items are queued: a notification was lost. The new sender
        counts the queue."""
        sender = self._senders.get(destination)
        view = None if sender is None else sender.view()
        if view is not None and view.state is State.IDLE and lag_ms > STALLED_AFTER_MS:
            self._running[destination].cancel()
            self._sweep_now.set()
