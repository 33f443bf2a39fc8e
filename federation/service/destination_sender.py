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
from federation.outgoing_transaction import PROCESSED, objections, target
from federation.passing_edus import PassingEdus
from federation.peer_errors import outcome_of
from federation.request_target import RequestTarget, request_target
from federation.send_failure import Failure, FailureKind, failure_of
from federation.send_queue import PduRef
from federation.service.client import TIMEOUT, FederationClient
from federation.service.destination_queue import DestinationQueue, Done, Transaction
from federation.service.outbox_observer import OutboxObserver
from federation.service.transaction_exchange import Begun
from storage.outbox import InFlight
from storage.saying import Offered

EVENT: Final = "/_matrix/federation/v1/event/{eventId}"
LINGER: Final = 60.0
"""Seconds for which a sender with nothing to do stays: a conversation must not begin anew with each word."""
SETTLE: Final = 0.3
"""Seconds for which what was delivered may stay in the queue, so that much of it is taken out at once. After
a kill it is sent once more."""
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
        # What the machine wants done that was told of something while the sender rested.
        self._decided: Sequence[Effect] = ()
        self._resting: asyncio.Future[bool] | None = None
        self._state: State | None = None
        self._active_at = time.monotonic()
        # Whether it rests until it has been quiet for long.
        self._lingers = False
        # When what was delivered is taken out of the queue.
        self._settling: asyncio.TimerHandle | None = None
        self._under_way: set[asyncio.Task[None]] = set()
        self._passing = PassingEdus()
        self._sent: BoundedCache[str, PduRef] = BoundedCache(MOST_SENT)
        self._event_ids: BoundedCache[PduRef, str] = BoundedCache(MOST_SENT)

    # -- what it is told --

    def tell(self, message: Input) -> None:
        """It is looked at now where nothing is under way. What can be done without waiting is done by then:
        what was queued with its transaction is on its way."""
        resting, machine = self._resting, self._machine
        if machine is None or resting is None or resting.done():
            self._inbox.append(message)
            return
        try:
            self._decide(machine, message)
        except Exception as error:
            # The sender falls over by it, and not whoever told it.
            self._inbox.append(message)
            if not resting.done():
                resting.set_exception(error)

    def _decide(self, machine: Destination, message: Input) -> None:
        now = self._now()
        effects = machine.receive(message, now)
        done = self._queue.done_at_once(effects, now) if effects else None
        if done is not None:
            self._follow(done)
            if done.left and self._settling is None:
                self._settling = asyncio.get_running_loop().call_later(SETTLE, self._settle)
        elif effects:
            self._decided = effects
            self._wake()
            return
        self._active_at = time.monotonic()
        if machine.deadline() is not None:
            self._wake()
        if machine.state is not self._state:
            self._note_state(machine)

    async def settle(self) -> None:
        """Take what was delivered out of the queue now."""
        await self._queue.settle()

    def _settle(self) -> None:
        self._settling = None
        self._start(self._queue.settle())

    def _wake(self) -> None:
        if self._resting is not None:
            _end(self._resting)

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

    def offer(self) -> Offered | None:
        """A transaction that others may write down together with what is in it."""
        if self._machine is None or self._machine.state is not State.IDLE or self._inbox or self._decided:
            return None  # something else may have to go before
        return self._queue.offer(self._now())

    def begun(self, transaction: InFlight) -> None:
        """They have. To be said before it is told of what is in it."""
        self._queue.begun(transaction)

    def view(self) -> View | None:
        """None as long as it has not begun."""
        return None if self._machine is None else self._machine.view()

    def left_over(self) -> Sequence[Input]:
        """What it was told and has not done."""
        return (*self._inbox, *([Timer()] if self._decided else ()))

    # -- what it does --

    async def run(self) -> None:
        """Until there has been nothing to do for a while."""
        outage, in_flight = await self._queue.restore()
        self._machine = machine = Destination(outage, in_flight)
        try:
            while (effects := await self._next(machine)) is not None:
                await self._carry_out(effects)
                self._decided = ()
                self._active_at = time.monotonic()
                if machine.state is not self._state:
                    self._note_state(machine)
        finally:
            if self._settling is not None:
                self._settling.cancel()
            for task in self._under_way:
                task.cancel()
            if self._under_way:
                await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _next(self, machine: Destination) -> Sequence[Effect] | None:
        """What is to be done about what came, or about what time it is; None when it has been quiet for
        long."""
        while not self._inbox:
            deadline = machine.deadline()
            wait = None if deadline is None else max(0, deadline - self._now()) / 1000
            self._lingers = self._is_quiet(machine)
            if self._lingers:
                wait = max(0.0, self._active_at + self._linger - time.monotonic())
            time_is_up = await self._rest(wait)
            if self._decided:
                return self._decided
            if self._inbox or not time_is_up:
                continue
            if not self._lingers:
                return machine.receive(Timer(), self._now())
            if self._is_quiet(machine) and time.monotonic() >= self._active_at + self._linger:
                return None
        return machine.receive(self._inbox.popleft(), self._now())

    def _is_quiet(self, machine: Destination) -> bool:
        return machine.state is State.IDLE and not self._under_way and self._queue.is_settled

    async def _rest(self, seconds: float | None) -> bool:
        """Until there is something to do, or for so long: whether that has passed."""
        loop = asyncio.get_running_loop()
        resting = self._resting = loop.create_future()
        timer = None if seconds is None else loop.call_later(seconds, _end, resting, True)
        try:
            return bool(await resting)
        finally:
            self._resting = None
            if timer is not None:
                timer.cancel()

    async def _carry_out(self, effects: Sequence[Effect]) -> None:
        self._follow(await self._queue.carry_out(effects, self._passing, self._now()))

    def _follow(self, done: Done) -> None:
        for fate, count in done.left:
            self._observer.left_queue(self._destination, fate, count)
        for answer in done.answers:
            self.tell(answer)
        if done.transaction is not None:
            self._begin(done.transaction)
        for probe in done.probes:
            self._start(self._probe(probe))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not self._lingers:
            # There may be nothing to wait for any more.
            self._wake()

    def _note_state(self, machine: Destination) -> None:
        self._state = machine.state
        self._observer.state_changed(self._destination, machine.state)

    def _begin(self, transaction: Transaction) -> None:
        for event_id, ref in transaction.places.items():
            self._sent.put(event_id, ref)
            self._event_ids.put(ref, event_id)
        to = target(transaction.transaction_id)
        try:
            begun = self._client.begin(self._destination, to, transaction.body)
        except Exception:
            begun = None  # what is wrong comes to light when it is waited for
        self._start(self._send(transaction, to, begun))

    async def _send(self, transaction: Transaction, to: RequestTarget, begun: Begun | None) -> None:
        began = time.monotonic()
        problem: PeerError | None = None
        failure: str | None = None
        objected: Mapping[str, str] = {}
        result: Answered | Failed
        try:
            answer = await self._client.transaction(
                self._destination, to, transaction.body, begun, timeout=self._patience
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


def _end(resting: "asyncio.Future[bool]", time_is_up: bool = False) -> None:
    if not resting.done():
        resting.set_result(time_is_up)
