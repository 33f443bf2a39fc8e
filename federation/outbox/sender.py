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
from federation.outbox.destination import Destination, State, View
from federation.outbox.lossy_edus import PassingEdus
from federation.outbox.messages import (
    Answered,
    Effect,
    Failed,
    Fate,
    Forget,
    Heard,
    Input,
    Load,
    Probe,
    Probed,
    Progressed,
    Queued,
    Remember,
    Send,
    Skip,
    Survey,
    Timer,
)
from federation.outbox.queue import DestinationQueue, FirstSent, Transaction
from federation.outbox.retry_schedule import Contacts
from federation.outbox.send_failure import Failure, FailureKind, failure_of
from federation.outbox.send_queue import PduRef
from federation.outbox.transaction_body import objections, target
from federation.transactions.outgoing_edus import OutgoingEdu
from federation.transactions.transaction import PROCESSED
from storage.concurrency import BackgroundTasks

EVENT: Final = "/_matrix/federation/v1/event/{eventId}"
LINGER: Final = 60.0
"""Seconds after which an idle sender ends: it should not be started again for each message of a
conversation."""
SETTLE: Final = 0.3
"""Seconds for which delivered items may stay in Postgres, so that many are deleted at once. If the process
is killed meanwhile, they are sent once more."""
MOST_SENT: Final = 2_000
"""How many sent events are kept by id, to recognise signs that the peer has them."""
MOST_SIGNS: Final = 1_000
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
        linger: float = LINGER,
        patience: float = TIMEOUT,
    ) -> None:
        self._destination = destination
        self._queue = queue
        self._client = client
        self._now_ms = now_ms
        self._jitter = jitter
        self._observer = observer
        self._contacts = contacts
        self._linger = linger
        self._patience = patience
        self._machine: Destination | None = None
        self._latest = 0
        self._inbox: deque[Input] = deque()
        self._wake = asyncio.Event()
        self._is_stopping = False
        self._active_at = time.monotonic()
        self._settle_at = 0.0
        self._tasks = BackgroundTasks()
        self._passing = PassingEdus()
        self._sent: LRUCache[str, PduRef] = LRUCache(MOST_SENT)
        self._event_ids: LRUCache[PduRef, str] = LRUCache(MOST_SENT)

    # -- inputs --

    def tell(self, message: Input) -> None:
        if isinstance(message, Heard | Progressed) and len(self._inbox) >= MOST_SIGNS:
            return
        self._inbox.append(message)
        self._wake.set()

    def pass_on(self, edu: OutgoingEdu) -> None:
        """Send an EDU that may be lost."""
        ref = self._passing.put(edu, self._now())
        if ref is not None:
            self.tell(Queued(edus=(ref,)))

    def seen(self, event_ids: Iterable[str]) -> None:
        """Record that the peer has these events."""
        for event_id in event_ids:
            ref = self._sent.get(event_id)
            if ref is not None:
                self.tell(Progressed(ref.room_id, ref.position))

    def stop(self) -> None:
        """Make `run` end soon, with delivered items deleted from the queue."""
        self._is_stopping = True
        self._wake.set()

    def view(self) -> View | None:
        """Return the state for the operator; None before `run` has begun."""
        return None if self._machine is None else self._machine.view()

    def first_sent(self) -> FirstSent | None:
        """Return when the transaction in flight was first sent."""
        return self._queue.first_sent

    def left_over(self) -> tuple[Input, ...]:
        """Return the inputs that were not handled."""
        return tuple(self._inbox)

    # -- effects --

    async def run(self) -> None:
        """Send until there has been nothing to do for `linger` seconds or `stop` is called."""
        machine = self._machine = Destination(await self._queue.outage())
        state: State | None = None
        try:
            while (message := await self._next(machine)) is not None:
                for effect in machine.receive(message, self._now()):
                    await self._carry_out(effect)
                self._active_at = time.monotonic()
                if machine.state is not state:
                    state = machine.state
                    self._observer.state_changed(self._destination, state)
            await self._queue.settle()
        finally:
            await self._tasks.close()

    async def _next(self, machine: Destination) -> Input | None:
        """Return the next input, which is a `Timer` at the machine's deadline; None when `run` should
        end."""
        while not self._inbox and not self._is_stopping:
            due = machine.deadline()
            times = [] if due is None else [time.monotonic() + (due - self._now()) / 1000]
            ends_at = self._active_at + self._linger
            is_quiet = machine.is_at_rest() and self._queue.is_settled
            if not self._queue.is_settled:
                times.append(self._settle_at)
            if is_quiet:
                times.append(ends_at)
            await self._rest(min(times, default=None))
            if self._inbox or self._is_stopping:
                break
            if due is not None and due <= self._now():
                return Timer()
            if not self._queue.is_settled and time.monotonic() >= self._settle_at:
                await self._queue.settle()
            elif is_quiet and time.monotonic() >= ends_at:
                return None
        return None if self._is_stopping else self._inbox.popleft()

    async def _rest(self, until: float | None) -> None:
        self._wake.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if until is None else until - time.monotonic()):
                await self._wake.wait()

    async def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Send():
                transaction = await self._queue.transaction(effect, self._passing, self._now())
                for event_id, ref in transaction.places.items():
                    self._sent[event_id] = ref
                    self._event_ids[ref] = event_id
                self._tasks.spawn("outbox transaction", self._send(transaction))
            case Forget(pdus, edus, fate):
                self._passing.forget(edu for edu in edus if edu.ephemeral)
                if self._queue.is_settled:
                    self._settle_at = time.monotonic() + SETTLE
                self._queue.forget(pdus, edus)
                self._observer.left_queue(self._destination, fate, len(pdus) + len(edus))
            case Load(lane):
                self.tell(await self._queue.load(lane))
            case Survey():
                self.tell(await self._queue.survey())
            case Skip(room_id, keep):
                skipped = await self._queue.skip(room_id, keep)
                self._observer.left_queue(self._destination, Fate.STALE, skipped)
            case Remember(outage):
                await self._queue.remember(outage)
            case Probe():
                self._tasks.spawn("outbox probe", self._probe(effect))

    async def _send(self, transaction: Transaction) -> None:
        began = time.monotonic()
        problem: PeerError | None = None
        failure: str | None = None
        objected: Mapping[str, str] = {}
        result: Answered | Failed
        try:
            answer = await self._client.request(
                "PUT",
                self._destination,
                target(transaction.transaction_id),
                transaction.body,
                timeout=self._patience,
            )
        except PeerError as error:
            problem, failure = error, error.problem
            result = Failed(failure_of(error), self._jitter())
        except Exception as error:
            # Without a result the machine would wait for ever.
            self._observer.problem(f"A transaction to {self._destination} could not be sent.", error)
            failure = "could not be sent a transaction because of an internal error; see the log of this node"
            result = Failed(Failure(FailureKind.AWAY), self._jitter())
        else:
            objected = objections(answer)
            result = Answered(processed=answer.get(PROCESSED) is True)
        # Before the observer is called, which may raise.
        self.tell(result)
        if failure is None:
            self._contacts.reached(self._destination, self._now_ms())
        else:
            self._contacts.failed(self._destination, self._now_ms(), failure)
        for event_id, error_text in objected.items():
            self._observer.objected(self._destination, event_id, error_text)
        self._observer.transaction_ended(
            self._destination,
            outcome_of(problem),
            len(transaction.places),
            transaction.edus,
            time.monotonic() - began,
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
        self.tell(Probed(probe.room_id, probe.position, has_it))

    def _now(self) -> int:
        """Return the time in milliseconds, which never decreases even if the system clock does."""
        self._latest = max(self._latest, self._now_ms())
        return self._latest
