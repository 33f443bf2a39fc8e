"""Sends to one server: passes inputs to its state machine and performs the effects."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from cachetools import LRUCache

from federation.client.client import TIMEOUT, FederationClient
from federation.client.errors import outcome_of
from federation.client.requests import request_target
from federation.matrix.errors import PeerError
from federation.observer import HomeserverObserver
from federation.outbox.destination import Destination, DestinationView, State
from federation.outbox.lossy_edus import LossyEdus
from federation.outbox.messages import (
    Effect,
    Input,
    Load,
    PeerProgress,
    PeerRequest,
    Probe,
    ProbeResult,
    QueuedItems,
    RemovalReason,
    Remove,
    Send,
    Skip,
    StoreOutage,
    Survey,
    Timer,
    TransactionFailure,
    TransactionSuccess,
)
from federation.outbox.queue import DestinationQueue, FirstAttempt, Transaction
from federation.outbox.retry_schedule import Contacts
from federation.outbox.send_failure import Failure, FailureKind, failure_of
from federation.outbox.send_queue import PduRef
from federation.outbox.transaction_body import pdu_errors, send_target
from federation.transactions.outgoing_edus import OutgoingEdu
from federation.transactions.transaction import PROCESSED
from storage.concurrency import BackgroundTasks

EVENT: Final = "/_matrix/federation/v1/event/{eventId}"
IDLE_TIMEOUT: Final = 60.0
"""Seconds after which an idle sender ends: it should not be started again for each message of a
conversation."""
FLUSH_DELAY: Final = 0.3
"""Seconds for which delivered items may stay in Postgres, so that many are deleted at once. If the process
is killed meanwhile, they are sent once more."""
MAX_SENT: Final = 2_000
"""How many sent events are kept by id, to recognise signs that the peer has them."""
MAX_UNHANDLED: Final = 1_000
"""From this number of unhandled inputs on, `PeerRequest` and `PeerProgress` are dropped: others follow
soon."""


class DestinationSender:
    def __init__(
        self,
        destination: str,
        queue: DestinationQueue,
        client: FederationClient,
        *,
        now_ms: Callable[[], int],
        jitter: Callable[[], float],
        observer: HomeserverObserver,
        contacts: Contacts,
        idle_timeout: float = IDLE_TIMEOUT,
        timeout: float = TIMEOUT,
    ) -> None:
        self._destination = destination
        self._queue = queue
        self._client = client
        self._now_ms = now_ms
        self._jitter = jitter
        self._observer = observer
        self._contacts = contacts
        self._idle_timeout = idle_timeout
        self._timeout = timeout
        self._machine: Destination | None = None
        self._latest = 0
        self._inputs: deque[Input] = deque()
        self._wake = asyncio.Event()
        self._is_stopping = False
        self._active_at = time.monotonic()
        self._flush_at = 0.0
        self._tasks = BackgroundTasks()
        self._lossy = LossyEdus()
        self._sent: LRUCache[str, PduRef] = LRUCache(MAX_SENT)
        self._event_ids: LRUCache[PduRef, str] = LRUCache(MAX_SENT)

    # -- inputs --

    def receive(self, message: Input) -> None:
        if isinstance(message, PeerRequest | PeerProgress) and len(self._inputs) >= MAX_UNHANDLED:
            return
        self._inputs.append(message)
        self._wake.set()

    def send_lossy(self, edu: OutgoingEdu) -> None:
        """Send an EDU that may be lost."""
        ref = self._lossy.put(edu, self._now())
        if ref is not None:
            self.receive(QueuedItems(edus=(ref,)))

    def mark_seen(self, event_ids: Iterable[str]) -> None:
        """Record that the peer has these events."""
        for event_id in event_ids:
            ref = self._sent.get(event_id)
            if ref is not None:
                self.receive(PeerProgress(ref.room_id, ref.position))

    def stop(self) -> None:
        """Make `run` end soon, with delivered items deleted from the queue."""
        self._is_stopping = True
        self._wake.set()

    def view(self) -> DestinationView | None:
        """Return the state for the operator; None before `run` has begun."""
        return None if self._machine is None else self._machine.view()

    def first_attempt(self) -> FirstAttempt | None:
        """Return when the transaction in flight was first sent."""
        return self._queue.first_attempt

    def unhandled(self) -> tuple[Input, ...]:
        """Return the inputs that were not handled."""
        return tuple(self._inputs)

    # -- effects --

    async def run(self) -> None:
        """Send until there has been nothing to do for `idle_timeout` seconds or `stop` is called."""
        machine = self._machine = Destination(await self._queue.fetch_outage())
        state: State | None = None
        try:
            while (message := await self._next(machine)) is not None:
                for effect in machine.receive(message, self._now()):
                    await self._perform(effect)
                self._active_at = time.monotonic()
                if machine.state is not state:
                    state = machine.state
                    self._observer.state_changed(self._destination, state)
            await self._queue.flush()
        finally:
            await self._tasks.close()

    async def _next(self, machine: Destination) -> Input | None:
        """Return the next input, which is a `Timer` at the machine's deadline; None when `run` should
        end."""
        while not self._inputs and not self._is_stopping:
            due = machine.deadline()
            times = [] if due is None else [time.monotonic() + (due - self._now()) / 1000]
            ends_at = self._active_at + self._idle_timeout
            is_quiet = machine.is_at_rest() and self._queue.is_flushed
            if not self._queue.is_flushed:
                times.append(self._flush_at)
            if is_quiet:
                times.append(ends_at)
            await self._wait(min(times, default=None))
            if self._inputs or self._is_stopping:
                break
            if due is not None and due <= self._now():
                return Timer()
            if not self._queue.is_flushed and time.monotonic() >= self._flush_at:
                await self._queue.flush()
            elif is_quiet and time.monotonic() >= ends_at:
                return None
        return None if self._is_stopping else self._inputs.popleft()

    async def _wait(self, until: float | None) -> None:
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if until is None else until - time.monotonic()):
                await self._wake.wait()

    async def _perform(self, effect: Effect) -> None:
        match effect:
            case Send():
                transaction = await self._queue.build_transaction(effect, self._lossy, self._now())
                for event_id, ref in transaction.refs.items():
                    self._sent[event_id] = ref
                    self._event_ids[ref] = event_id
                self._tasks.spawn("outbox transaction", self._send(transaction))
            case Remove(pdus, edus, reason):
                self._lossy.remove(edu for edu in edus if edu.ephemeral)
                if self._queue.is_flushed:
                    self._flush_at = time.monotonic() + FLUSH_DELAY
                self._queue.remove(pdus, edus)
                self._observer.removed_from_queue(self._destination, reason, len(pdus) + len(edus))
            case Load(lane):
                self.receive(await self._queue.load(lane))
            case Survey():
                self.receive(await self._queue.survey())
            case Skip(room_id, keep):
                skipped = await self._queue.skip(room_id, keep)
                self._observer.removed_from_queue(self._destination, RemovalReason.STALE, skipped)
            case StoreOutage(outage):
                await self._queue.store_outage(outage)
            case Probe():
                self._tasks.spawn("outbox probe", self._probe(effect))

    async def _send(self, transaction: Transaction) -> None:
        began = time.monotonic()
        problem: PeerError | None = None
        failure: str | None = None
        errors: Mapping[str, str] = {}
        result: TransactionSuccess | TransactionFailure
        try:
            response = await self._client.request(
                "PUT",
                self._destination,
                send_target(transaction.transaction_id),
                transaction.body,
                timeout=self._timeout,
            )
        except PeerError as error:
            problem, failure = error, error.problem
            result = TransactionFailure(failure_of(error), self._jitter())
        except Exception as error:
            # Without a result the machine would wait for ever.
            self._observer.problem(f"A transaction to {self._destination} could not be sent.", error)
            failure = "could not be sent a transaction because of an internal error; see the log of this node"
            result = TransactionFailure(Failure(FailureKind.AWAY), self._jitter())
        else:
            errors = pdu_errors(response)
            result = TransactionSuccess(processed=response.get(PROCESSED) is True)
        # Before the observer is called, which may raise.
        self.receive(result)
        if failure is None:
            self._contacts.reached(self._destination, self._now_ms())
        else:
            self._contacts.failed(self._destination, self._now_ms(), failure)
        for event_id, error_text in errors.items():
            self._observer.event_refused(self._destination, event_id, error_text)
        self._observer.transaction_ended(
            self._destination, outcome_of(problem), len(transaction.refs), transaction.edus, time.monotonic() - began
        )

    async def _probe(self, probe: Probe) -> None:
        event_id = self._event_ids.get(PduRef(probe.position, probe.room_id))
        has_it = False
        if event_id is not None:
            try:
                await self._client.request("GET", self._destination, request_target(EVENT, eventId=event_id))
                has_it = True
            except PeerError:
                has_it = False
            except Exception as error:
                # Without a result the room would never be probed again.
                self._observer.problem(f"A probe of {self._destination} failed.", error)
        self.receive(ProbeResult(probe.room_id, probe.position, has_it))

    def _now(self) -> int:
        """Return the time in milliseconds, which never decreases even if the system clock does."""
        self._latest = max(self._latest, self._now_ms())
        return self._latest
