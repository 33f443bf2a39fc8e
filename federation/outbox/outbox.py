"""Everything that this server sends to others: queued with what it is about, sent by one process at a time.

A sender runs for every server for which something waits. Which process it runs in is decided by an advisory
lock; what it has to do lies in Postgres, so that a process that is killed is followed by another one that
goes on where it was.

What a process tells the others when it has queued something for a server that one of them sends to, or has
heard of it.
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
from federation.observer import HomeserverObserver, Waiting
from federation.outbox.destination import State, View
from federation.outbox.messages import Heard, Input, Queued
from federation.outbox.queue import DestinationQueue, FirstSent, Fresh
from federation.outbox.retry_schedule import Contact, Contacts
from federation.outbox.send_queue import EduRef, PduRef
from federation.outbox.sender import LINGER, DestinationSender
from federation.rooms.ports import Committed
from federation.transactions.edu_making import Outgoing
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Connection, Database
from storage.federation import outbox
from storage.federation import outbox as outages
from storage.federation.outbox import StoredPdu

MOST_BYTES: Final = 7_900
"""Postgres refuses notifications of 8,000 bytes."""


class Notice(NamedTuple):
    destination: str
    messages: tuple[Input, ...]
    """For whoever sends to it."""


def notices(destination: str, left: Sequence[Input]) -> Iterator[str]:
    """As few as will do. The passing EDUs stay out: what they are is known to the process that made them, and
    by the time another could send them they are worth little."""
    queued = [message for message in left if isinstance(message, Queued)]
    pdus = [[pdu.position, pdu.room_id] for one in queued for pdu in one.pdus]
    edus = [edu.position for one in queued for edu in one.edus if not edu.ephemeral]
    yield from _fitting({"destination": destination, "pdus": pdus, "edus": edus})
    if any(isinstance(message, Heard) for message in left):
        yield json.dumps({"destination": destination, "heard": True})


def _fitting(notice: dict[str, Any]) -> Iterator[str]:
    pdus, edus = notice["pdus"], notice["edus"]
    if not pdus and not edus:
        return
    text = json.dumps(notice)
    if len(text) <= MOST_BYTES:
        yield text
        return
    for half in (slice(None, len(pdus) // 2), slice(len(pdus) // 2, None)):
        other = slice(None, len(edus) // 2) if half.start is None else slice(len(edus) // 2, None)
        yield from _fitting({**notice, "pdus": pdus[half], "edus": edus[other]})


def read_notice(text: str) -> Notice:
    notice = decode(text.encode())
    if notice.get("heard") is True:
        return Notice(notice["destination"], (Heard(),))
    pdus = tuple(PduRef(position, room_id) for position, room_id in notice["pdus"])
    queued = Queued(pdus, tuple(EduRef(position) for position in notice["edus"]))
    return Notice(notice["destination"], (queued,))


TOPIC: Final = "outbox"
SWEEP: Final = 15.0
"""Seconds between two looks at all queues: for what was queued without a notice, what a process has left that
has ended, and to count."""
OVERSLEPT_MS: Final = 30_000
LONGEST_SETTLING: Final = 2.0
"""Seconds for which closing waits for Postgres."""
RESTART: Final = 5.0
"""Seconds before a sender that failed is replaced."""

MOST_FRESH: Final = 4 * 1024 * 1024
"""Bytes of events that wait and are remembered. Others are read from the queue."""


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
        sweep: float = SWEEP,
        linger: float = LINGER,
        patience: float = TIMEOUT,
    ) -> None:
        """`patience`: seconds that a server has for answering a transaction."""
        self._server_name = server_name
        self._database = database
        self._client = client
        self._now_ms = now_ms
        self._may_contact = may_contact
        self._observer: HomeserverObserver = observer or HomeserverObserver()
        self._jitter = jitter
        self._sweep_every = sweep
        self._linger = linger
        self._patience = patience
        self._end_subscription: Callable[[], None] = lambda: None
        # None until it has started, and once it is closed: nothing is sent then.
        self._epoch: str | None = None
        # Until they are sent: what has just been written need not be read.
        self._fresh: Fresh = WeightedCache(MOST_FRESH, lambda pdu: len(pdu.canonical))
        self._contacts = Contacts()
        self._waited_for: set[str] = set()
        self._senders: dict[str, DestinationSender] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._tasks = BackgroundTasks()
        self._sweep_now = asyncio.Event()

    async def start(self) -> None:
        """Go on with whatever waits."""
        async with self._database.autocommit() as connection:
            self._epoch = await outbox.fetch_epoch(connection)
        self._end_subscription = self._database.session.subscribe(TOPIC, self._notified)
        self._tasks.supervise("outbox", self._keep_sweeping)

    async def close(self) -> None:
        """Stop in the middle of things; nothing is lost by it. It takes some seconds at most."""
        self._epoch = None
        self._end_subscription()
        for sender in self._senders.values():
            # Left in the queue, what was delivered would be sent once more.
            sender.stop()
        if self._running:
            await asyncio.wait(self._running.values(), timeout=LONGEST_SETTLING)
        await self._tasks.close()

    # -- queueing --

    def to_queue(self, committed: Sequence[Committed]) -> list[tuple[str, EventId]]:
        """Servers and the events that they are to get, to be written together with the events."""
        return [
            (destination, event.pdu.event_id)
            for event in committed
            for destination in sorted(self._reachable(event.destinations))
        ]

    def queued(self, committed: Sequence[Committed], places: Sequence[outbox.QueuedPdu]) -> None:
        """That has been committed: the senders are told of it, and find the events here."""
        self._see(committed)
        pdus = {event.pdu.event_id: event.pdu for event in committed}
        queued: dict[str, list[PduRef]] = {}
        for destination, event_id, position in places:
            pdu = pdus[event_id]
            self._fresh[position] = StoredPdu(position, event_id, pdu.canonical)
            queued.setdefault(destination, []).append(PduRef(position, pdu.room_id))
        for destination, refs in queued.items():
            self._tell(destination, Queued(pdus=tuple(refs)))

    def _see(self, committed: Sequence[Committed]) -> None:
        """Whether or not they are committed: what their servers refer to they have."""
        for event in committed:
            if event.origin is not None:
                self.seen_by(event.origin, event.pdu.prev_events)

    async def queue_edu(self, connection: Connection, destinations: Collection[str], edu: Outgoing) -> None:
        """Queue an EDU that must arrive, in the transaction that it belongs to."""
        assert edu.lives_ms is None, "what may be lost is passed on"
        to = sorted(self._reachable(destinations))
        content = encode(dict(edu.content))
        for row in await outbox.queue_edu(connection, to, edu.edu_type, content, self._now_ms()):
            self._tell_after_commit(connection, row.destination, Queued(edus=(EduRef(row.position),)))

    def pass_on(self, destinations: Collection[str], edu: Outgoing) -> None:
        """Send an EDU that is worth nothing once it is late. Servers that don't answer don't get it."""
        for destination in self._reachable(destinations):
            sender = self._sender(destination)
            if sender is not None:
                sender.pass_on(edu)

    def _reachable(self, destinations: Iterable[str]) -> set[str]:
        return {name for name in destinations if name != self._server_name and self._may_contact(name)}

    # -- signs of life --

    def heard_from(self, server: str) -> None:
        """An authenticated request came from there: it is alive, and what waits for it is sent."""
        self._contacts.heard(server, self._now_ms())
        sender = self._senders.get(server)
        if sender is not None:
            sender.tell(Heard())
        elif server in self._waited_for:
            # Another process sends to it. It is told, but not of each request that comes: once until the next
            # sweep.
            self._waited_for.discard(server)
            self._tell(server, Heard())

    def retry(self, server: str) -> None:
        """Try a server now that somebody has put right; here, or in the process that sends to it. As when it
        is heard from, there are five seconds between two attempts, and its word on when to come back counts.
        """
        if self._reachable([server]):
            self._tell(server, Heard())

    def seen_by(self, server: str, event_ids: Iterable[str]) -> None:
        """That server has these events: it has referred to them, or a user of it has read them."""
        sender = self._senders.get(server)
        if sender is not None:
            sender.seen(event_ids)

    def view(self) -> dict[str, View]:
        """How it stands with each server to which this process sends."""
        views = {destination: sender.view() for destination, sender in self._senders.items()}
        return {destination: view for destination, view in views.items() if view is not None}

    def first_sent(self, server: str) -> FirstSent | None:
        """Of the transaction that is in flight to a server, if this process sends it."""
        sender = self._senders.get(server)
        return None if sender is None else sender.first_sent()

    def contact(self, server: str) -> Contact:
        """When this process reached it last, and heard from it."""
        return self._contacts.of(server)

    def contacts(self) -> frozenset[str]:
        """The servers of which it knows that."""
        return self._contacts.servers()

    # -- senders --

    def _tell_after_commit(self, connection: Connection, destination: str, message: Queued) -> None:
        """Where it is not known whether the transaction was committed, a sweep finds what it has queued."""
        self._database.after_commit(connection, partial(self._tell, destination, message))

    def _tell(self, destination: str, message: Input) -> None:
        sender = self._sender(destination)
        if sender is not None:
            sender.tell(message)

    def _sender(self, destination: str) -> DestinationSender | None:
        """None: nothing is sent now."""
        if self._epoch is None:
            return None
        sender = self._senders.get(destination)
        if sender is None:
            queue = DestinationQueue(
                self._server_name, destination, self._database, self._epoch, self._fresh, self._observer
            )
            sender = self._senders[destination] = DestinationSender(
                destination,
                queue,
                self._client,
                now_ms=self._now_ms,
                jitter=self._jitter,
                observer=self._observer,
                contacts=self._contacts,
                linger=self._linger,
                patience=self._patience,
            )
            task = self._tasks.spawn("outbox sender", self._run(destination, sender))
            self._running[destination] = task
            task.add_done_callback(partial(self._ended, destination, sender))
        return sender

    async def _run(self, destination: str, sender: DestinationSender) -> None:
        """One sender from beginning to end."""
        has_failed = False
        try:
            lease = await self._database.session.try_lease(f"outbox {destination}")
            if lease is None:
                self._drop(destination, sender)
                for text in notices(destination, sender.left_over()):
                    self._database.session.notify(TOPIC, text)
                return
            async with lease:
                try:
                    await sender.run()
                except Exception as error:
                    has_failed = True
                    self._observer.problem(
                        f"The sender to {destination} failed; another one replaces it.", error
                    )
                    await asyncio.sleep(RESTART)
        except ConnectionLost:
            # Another process may be sending by now. A sweep finds what waits.
            self._sweep_now.set()
            return
        finally:
            self._drop(destination, sender)
        if has_failed or sender.left_over():
            # Another one counts anew what waits.
            self._sender(destination)

    def _drop(self, destination: str, sender: DestinationSender) -> None:
        if self._senders.get(destination) is sender:
            del self._senders[destination]

    def _ended(self, destination: str, sender: DestinationSender, task: asyncio.Task[None]) -> None:
        # One that was cancelled before it began could not do so itself.
        self._drop(destination, sender)
        if self._running.get(destination) is task:
            del self._running[destination]

    # -- other processes --

    def _notified(self, text: str | None) -> None:
        if text is None:
            self._sweep_now.set()
            return
        destination, messages = read_notice(text)
        sender = self._senders.get(destination)
        if sender is not None:
            for message in messages:
                sender.tell(message)

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
        # A server that is tried again much later takes no sender, and so no lock of Postgres, until then.
        next_sweeps = now + int(2_000 * self._sweep_every)
        self._waited_for = self._reachable(waiting)
        for destination in sorted(self._waited_for):
            if destination not in away or away[destination].retry_at <= next_sweeps:
                self._sender(destination)
        told = [Waiting(one.destination, one.pdus, one.edus, max(0, now - one.oldest)) for one in depths]
        self._observer.depths(told)
        for one in told:
            self._wake_overslept(one.destination, one.lag_ms)

    def _wake_overslept(self, destination: str, lag_ms: int) -> None:
        """A sender that has nothing to do while something waits was not told by the process that queued it.
        Its successor counts."""
        sender = self._senders.get(destination)
        view = None if sender is None else sender.view()
        if view is not None and view.state is State.IDLE and lag_ms > OVERSLEPT_MS:
            self._running[destination].cancel()
            self._sweep_now.set()
