"""Everything that this server sends to others: queued with what it is about, sent by one process at a time.

A sender runs for every server for which something waits. Which process it runs in is decided by an advisory
lock; what it has to do lies in Postgres, so that a process that is killed is followed by another one that
goes on where it was.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Final

from federation.canonical_json import encode
from federation.contacts import Contact, Contacts
from federation.destination import State, View
from federation.destination_messages import Heard, Input, Queued, Timer
from federation.edu.making import Outgoing
from federation.pdu import EventId
from federation.queue_depth import Waiting
from federation.send_queue import EduRef, PduRef
from federation.service.client import TIMEOUT, FederationClient
from federation.service.commit_watch import CommitWatch
from federation.service.destination_queue import DestinationQueue, Fresh
from federation.service.destination_sender import LINGER, DestinationSender
from federation.service.outbox_lease import LeaseLost, OutboxLease
from federation.service.outbox_notice import notices, read_notice
from federation.service.outbox_observer import OutboxObserver, Silent
from federation.service.room_ports import Committed
from federation.weighted_cache import WeightedCache
from storage import outbox, saying
from storage.connecting import ConnectionLost
from storage.database import Connection, Database
from storage.errors import LocalError
from storage.outbox import InFlight, StoredPdu

SWEEP: Final = 15.0
"""Seconds between two looks at all queues: for what a process has left that is no more, and to count."""
OVERSLEPT_MS: Final = 30_000
LONGEST_SETTLING: Final = 2.0
"""Seconds for which closing waits for Postgres."""
RESTART: Final = 5.0
"""Seconds before a sender that fell over, or a session that was lost, is replaced."""

MOST_FRESH: Final = 4 * 1024 * 1024
"""Bytes of events that wait and are remembered. Others are read from the queue."""

_Told = tuple[str, Queued]


class Outbox:
    def __init__(
        self,
        server_name: str,
        database: Database,
        client: FederationClient,
        *,
        now_ms: Callable[[], int],
        may_contact: Callable[[str], bool] = lambda _: True,
        observer: OutboxObserver | None = None,
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
        self._observer: OutboxObserver = observer or Silent()
        self._jitter = jitter
        self._sweep_every = sweep
        self._linger = linger
        self._patience = patience
        self._lease = OutboxLease(database.address, self._hear_of, self._lose)
        self._watch: CommitWatch[_Told] = CommitWatch(database, self._tell_all)
        # Until they are sent: what has just been written need not be read.
        self._fresh: Fresh = WeightedCache(MOST_FRESH)
        self._contacts = Contacts()
        self._waited_for: set[str] = set()
        self._senders: dict[str, DestinationSender] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._side_tasks: set[asyncio.Task[None]] = set()
        self._sweep_now = asyncio.Event()
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Go on with whatever waits."""
        await self._lease.open()
        self._watch.start()
        self._sweeper = asyncio.create_task(self._sweep_for_ever())

    async def close(self) -> None:
        """Stop in the middle of things; nothing is lost by it."""
        await self._watch.close()
        # Left in the queue, what was delivered would be sent once more.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LONGEST_SETTLING):
                await asyncio.gather(*(sender.settle() for sender in self._senders.values()))
        tasks = [*self._running.values(), *filter(None, [self._sweeper])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*self._side_tasks, return_exceptions=True)
        await self._lease.close()

    # -- queueing --

    async def on_commit(self, connection: Connection, committed: Sequence[Committed]) -> None:
        """Queue events in the transaction that commits them: the room graph's `CommitHook`."""
        entries = [
            (destination, event.pdu.room_id, event.pdu.event_id)
            for event in committed
            for destination in sorted(self._reachable(event.destinations))
        ]
        self._see(committed)
        for row in await outbox.queue_pdus(connection, entries, self._now_ms()):
            told = row.destination, Queued(pdus=(PduRef(row.position, row.room_id),))
            self._watch.add(row.written_by, [told], connection)

    def to_queue(self, committed: Sequence[Committed]) -> list[tuple[str, EventId]]:
        """What `on_commit` would queue, for whoever writes it together with the events."""
        return [
            (destination, event.pdu.event_id)
            for event in committed
            for destination in sorted(self._reachable(event.destinations))
        ]

    def offered(self, destinations: Collection[str]) -> dict[str, saying.Offered]:
        """Where this process sends, and nothing is in flight: transactions with what is queued."""
        offered = {}
        for name in destinations:
            sender = self._senders.get(name)
            offer = None if sender is None else sender.offer()
            if offer is not None:
                offered[name] = offer
        return offered

    def queued(self, committed: Sequence[Committed], places: Sequence[saying.Queued]) -> None:
        """That has been committed: the senders hear of it, and find the events here."""
        self._see(committed)
        pdus = {event.pdu.event_id: event.pdu for event in committed}
        told: dict[str, list[PduRef]] = {}
        begun: dict[str, tuple[str, int]] = {}
        for destination, event_id, position, transaction_id, begun_at in places:
            pdu = pdus[event_id]
            self._fresh.put(position, StoredPdu(position, event_id, pdu.canonical), len(pdu.canonical))
            told.setdefault(destination, []).append(PduRef(position, pdu.room_id))
            if transaction_id is not None and begun_at is not None:
                begun[destination] = transaction_id, begun_at
        for destination, (transaction_id, begun_at) in begun.items():
            sender = self._senders.get(destination)
            if sender is not None:
                positions = [ref.position for ref in told[destination]]
                sender.begun(InFlight(transaction_id, begun_at, positions, []))
        self._tell_all((destination, Queued(pdus=tuple(refs))) for destination, refs in told.items())

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
            queued = row.destination, Queued(edus=(EduRef(row.position),))
            self._watch.add(row.written_by, [queued], connection)

    def pass_on(self, destinations: Collection[str], edu: Outgoing) -> None:
        """Send an EDU that is worth nothing once it is late. Servers that don't answer don't get it."""
        for destination in self._reachable(destinations):
            self._sender(destination).pass_on(edu)

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
            self._sender(server).tell(Heard())

    def retry(self, server: str) -> None:
        """Try a server now that somebody has put right; here, or in the process that sends to it. As when it
        is heard from, there are five seconds between two attempts, and its word on when to come back counts.
        """
        if self._reachable([server]):
            self._sender(server).tell(Heard())

    def seen_by(self, server: str, event_ids: Iterable[str]) -> None:
        """That server has these events: it has referred to them, or a user of it has read them."""
        sender = self._senders.get(server)
        if sender is not None:
            sender.seen(event_ids)

    def view(self) -> dict[str, View]:
        """How it stands with each server to which this process sends."""
        views = {destination: sender.view() for destination, sender in self._senders.items()}
        return {destination: view for destination, view in views.items() if view is not None}

    def contact(self, server: str) -> Contact:
        """When this process reached it last, and heard from it."""
        return self._contacts.of(server)

    def contacts(self) -> frozenset[str]:
        """The servers of which it knows that."""
        return self._contacts.servers()

    # -- senders --

    def _tell_all(self, told: Iterable[_Told]) -> None:
        for destination, queued in told:
            self._sender(destination).tell(queued)

    def _sender(self, destination: str) -> DestinationSender:
        sender = self._senders.get(destination)
        if sender is None:
            queue = DestinationQueue(
                self._server_name, destination, self._database, self._observer, self._fresh
            )
            sender = self._senders[destination] = DestinationSender(
                destination,
                queue,
                self._client,
                now_ms=self._now_ms,
                jitter=self._jitter,
                observer=self._observer,
                linger=self._linger,
                patience=self._patience,
                ended=partial(self._note, destination),
            )
            task = asyncio.create_task(self._run(destination, sender))
            self._running[destination] = task
            task.add_done_callback(partial(self._ended, destination, sender))
        return sender

    def _note(self, destination: str, failure: str | None) -> None:
        if failure is None:
            self._contacts.reached(destination, self._now_ms())
        else:
            self._contacts.failed(destination, self._now_ms(), failure)

    async def _run(self, destination: str, sender: DestinationSender) -> None:
        """One sender from beginning to end. It raises nothing."""
        try:
            session = await self._lease.try_lock(destination)
        except LeaseLost:
            # What was queued is found by a sweep, once there is a session again.
            return
        if session is None:
            self._drop(destination, sender)
            self._notify(destination, sender.left_over())
            return
        try:
            await sender.run()
        except Exception as error:
            self._observer.problem(f"The sender to {destination} fell over; another one takes over.", error)
            await asyncio.sleep(RESTART)
            sender.tell(Timer())
        finally:
            self._drop(destination, sender)
            self._keep_until_done(self._lease.unlock(destination, session))
        if sender.left_over():
            # Another one counts anew what waits.
            self._sender(destination)

    def _drop(self, destination: str, sender: DestinationSender) -> None:
        if self._senders.get(destination) is sender:
            del self._senders[destination]

    def _ended(self, destination: str, sender: DestinationSender, task: asyncio.Task[None]) -> None:
        # One that was cancelled before it began could not tidy up itself.
        self._drop(destination, sender)
        if self._running.get(destination) is task:
            del self._running[destination]

    def _keep_until_done(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._side_tasks.add(task)
        task.add_done_callback(self._side_tasks.discard)

    # -- other processes --

    def _notify(self, destination: str, left: Sequence[Input]) -> None:
        texts = list(notices(destination, left))
        if texts:
            self._keep_until_done(self._send_notices(texts))

    async def _send_notices(self, texts: Iterable[str]) -> None:
        # Lost, it is made up for by the sweep of the process that would have got it.
        with contextlib.suppress(ConnectionLost):
            async with self._database.transaction() as connection:
                for text in texts:
                    await outbox.notify(connection, text)

    def _hear_of(self, text: str) -> None:
        destination, messages = read_notice(text)
        sender = self._senders.get(destination)
        if sender is not None:
            for message in messages:
                sender.tell(message)

    def _lose(self) -> None:
        """Another process may be sending by now."""
        for task in self._running.values():
            task.cancel()
        self._sweep_now.set()

    # -- sweeping --

    async def _sweep_for_ever(self) -> None:
        while True:
            self._sweep_now.clear()
            try:
                if not self._lease.is_open:
                    await self._lease.open()
                await self._sweep()
            except (LocalError, OSError) as error:
                self._observer.problem("Nothing is sent, because Postgres is away.", error)
                await asyncio.sleep(RESTART)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._sweep_every):
                    await self._sweep_now.wait()

    async def _sweep(self) -> None:
        async with self._database.transaction(readonly=True) as connection:
            waiting = await outbox.destinations(connection)
            depths = await outbox.depths(connection)
        self._waited_for = self._reachable(waiting)
        for destination in sorted(self._waited_for):
            self._sender(destination)
        now = self._now_ms()
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
