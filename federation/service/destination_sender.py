"""Sends to one server: gives its machine what happens, and does what it wants done."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

from federation.bounded_cache import BoundedCache
from federation.destination import Destination, State, View
from federation.destination_messages import (
    Answered,
    Effect,
    Failed,
    Input,
    Probe,
    Probed,
    Progressed,
    Queued,
    Timer,
)
from federation.edu.making import Outgoing
from federation.errors import PeerError
from federation.outgoing_transaction import PROCESSED, objections
from federation.passing_edus import PassingEdus
from federation.peer_errors import outcome_of
from federation.request_target import request_target
from federation.send_failure import Failure, FailureKind, failure_of
from federation.send_queue import PduRef
from federation.service.client import TIMEOUT, FederationClient
from federation.service.destination_queue import DestinationQueue, Transaction
from federation.service.outbox_observer import OutboxObserver
from storage.outbox import InFlight

SEND: Final = "/_matrix/federation/v1/send/{txnId}"
EVENT: Final = "/_matrix/federation/v1/event/{eventId}"
LINGER: Final = 60.0
"""Seconds for which a sender with nothing to do stays: a conversation must not begin anew with each word."""
MOST_SENT: Final = 2_000
"""How many events that went out are remembered by their ids."""


class DestinationSender:
    def __init__(
        self,
        destination: str,
        queue: DestinationQueue,
        client: FederationClient,
        *,
        now_ms: Callable[[], int],
        jitter: Callable[[], float],
        observer: OutboxObserver,
        linger: float = LINGER,
        patience: float = TIMEOUT,
        ended: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        """`ended` is told of each transaction why it failed, or None."""
        self._destination = destination
        self._queue = queue
        self._client = client
        self._now_ms = now_ms
        self._jitter = jitter
        self._observer = observer
        self._linger = linger
        self._patience = patience
        self._ended = ended
        self._machine: Destination | None = None
        self._latest = 0
        self._inbox: deque[Input] = deque()
        self._arrived = asyncio.Event()
        self._under_way: set[asyncio.Task[None]] = set()
        self._passing = PassingEdus()
        self._sent: BoundedCache[str, PduRef] = BoundedCache(MOST_SENT)
        self._event_ids: BoundedCache[PduRef, str] = BoundedCache(MOST_SENT)

    # -- what it is told --

    def tell(self, message: Input) -> None:
        self._inbox.append(message)
        self._arrived.set()

    def pass_on(self, edu: Outgoing) -> None:
        """Send an EDU that is worth nothing once it is late."""
        ref = self._passing.put(edu, self._now())
        if ref is not None:
            self.tell(Queued(edus=(ref,)))

    def seen(self, event_ids: Iterable[str]) -> None:
        """The peer has shown that it has these events."""
        for event_id in event_ids:
            ref = self._sent.get(event_id)
            if ref is not None:
                self.tell(Progressed(ref.room_id, ref.position))

    def offer(self) -> str | None:
        """The id of a transaction that others may write down together with what is in it."""
        if self._machine is None or self._machine.state is not State.IDLE or self._inbox:
            return None  # something else may have to go before
        return self._queue.offer(self._now())

    def begun(self, transaction: InFlight) -> None:
        """They have. To be said before it is told of what is in it."""
        self._queue.begun(transaction)

    def view(self) -> View | None:
        """None as long as it has not begun."""
        return None if self._machine is None else self._machine.view()

    def left_over(self) -> Sequence[Input]:
        """What it was told and has not looked at."""
        return tuple(self._inbox)

    # -- what it does --

    async def run(self) -> None:
        """Until there has been nothing to do for a while."""
        outage, in_flight = await self._queue.restore()
        self._machine = machine = Destination(outage, in_flight)
        try:
            state = None
            while (message := await self._next(machine)) is not None:
                await self._carry_out(machine.receive(message, self._now()))
                if machine.state is not state:
                    state = machine.state
                    self._observer.state_changed(self._destination, state)
        finally:
            for task in self._under_way:
                task.cancel()
            if self._under_way:
                await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _next(self, machine: Destination) -> Input | None:
        """What came, or what time it is; None when it has been quiet for long."""
        while not self._inbox:
            self._arrived.clear()
            deadline = machine.deadline()
            wait = None if deadline is None else max(0, deadline - self._now()) / 1000
            if machine.state is State.IDLE and not self._under_way:
                wait = self._linger
            try:
                async with asyncio.timeout(wait):
                    await self._arrived.wait()
            except TimeoutError:
                if self._inbox:
                    break
                return None if deadline is None else Timer()
        return self._inbox.popleft()

    async def _carry_out(self, effects: Sequence[Effect]) -> None:
        done = await self._queue.carry_out(effects, self._passing, self._now())
        for fate, count in done.left:
            self._observer.left_queue(self._destination, fate, count)
        for answer in done.answers:
            self.tell(answer)
        if done.transaction is not None:
            self._start(self._send(done.transaction))
        for probe in done.probes:
            self._start(self._probe(probe))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _send(self, transaction: Transaction) -> None:
        for event_id, ref in transaction.places.items():
            self._sent.put(event_id, ref)
            self._event_ids.put(ref, event_id)
        began = time.monotonic()
        problem: PeerError | None = None
        failure: str | None = None
        objected: Mapping[str, str] = {}
        result: Answered | Failed
        target = request_target(SEND, txnId=transaction.transaction_id)
        try:
            answer = await self._client.transaction(
                self._destination, target, transaction.body, timeout=self._patience
            )
        except PeerError as error:
            problem, failure = error, error.problem
            result = Failed(failure_of(error), self._jitter())
        except Exception as error:
            # Left without a result the machine would wait for one for ever.
            self._observer.problem(f"A transaction to {self._destination} could not be sent.", error)
            failure = "could not be sent a transaction, by a fault of this node that its log tells of"
            result = Failed(Failure(FailureKind.AWAY), self._jitter())
        else:
            objected = objections(answer)
            result = Answered(processed=answer.get(PROCESSED) is True)
        # First: whoever looks on may fail, and the queue goes on.
        self.tell(result)
        self._ended(failure)
        for event_id, words in objected.items():
            self._observer.objected(self._destination, event_id, words)
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
        self.tell(Probed(probe.room_id, probe.position, has_it))

    def _now(self) -> int:
        """It never runs backwards, whatever the system's clock does."""
        self._latest = max(self._latest, self._now_ms())
        return self._latest
