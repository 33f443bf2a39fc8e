"""The state machine of one destination server: decides what is sent to it and when. The queue itself is in
Postgres.

One transaction is in flight at a time, with at most 50 PDUs and 100 EDUs. A transaction without a response
is sent again unchanged, because the peer may have processed it. After an hour without success only that
transaction stays in memory; then, as after a restart, the queued events are counted before the next
attempt. Of a room with a long queue only the newest event is sent, from which the peer can fetch the
others.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final

from federation.outbox.messages import (
    Effect,
    Input,
    Load,
    LoadResult,
    Outage,
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
    SurveyResult,
    Timer,
    TransactionFailure,
    TransactionSuccess,
)
from federation.outbox.pacing import DestinationPacer
from federation.outbox.retry_schedule import RetrySchedule
from federation.outbox.send_failure import FailureKind
from federation.outbox.send_queue import EduRef, SendQueue

MAX_PDUS: Final = 50
MAX_EDUS: Final = 100
MAX_BACKLOG: Final = 500
"""After an outage, a room's queue of up to this many events is sent completely: at fifty a second that
takes ten seconds. Of a longer queue only the newest event is sent, and the peer fetches what it needs of
the rest."""
MAX_REFUSALS: Final = 5
"""A server that refuses so many single events in a row has another reason to refuse them; it is treated as
unavailable."""


class State(StrEnum):
    IDLE = "idle"
    """The queue is empty, or its items are being loaded."""
    PACED = "paced"
    """Queued events are held back until the peer has processed earlier ones."""
    SENDING = "sending"
    BACKING_OFF = "backing_off"
    """The last attempt failed, or none was made since the start."""
    SURVEYING = "surveying"
    """The queue in Postgres is being counted."""


@dataclass(frozen=True, slots=True)
class DestinationView:
    """The state for the operator. `catching_up`: Postgres has more queued items than are in memory."""

    state: State
    catching_up: bool
    in_flight: Send | None
    """The transaction without a response."""
    failures: int
    failing_since: int | None
    retry_at: int | None


@dataclass(frozen=True, slots=True)
class Transition:
    """The action for an input, and the states to which it may lead."""

    action: "Callable[[Destination, Any, int], list[Effect]]"
    to: frozenset[State]


def _transition(action: "Callable[[Destination, Any, int], list[Effect]]", *states: State) -> Transition:
    return Transition(action, frozenset(states))


_READY: Final = (State.IDLE, State.PACED, State.SENDING)
# The failed transaction is still in flight, or the queue has to be counted first.
_AFTER_RETRY: Final = (State.BACKING_OFF, State.SENDING, State.SURVEYING)


class Destination:
    """`now_ms` is milliseconds since 1970 and must never decrease. The first attempt is due at once, or at
    the `retry_at` of the stored outage."""

    def __init__(self, outage: Outage | None = None) -> None:
        self.state = State.BACKING_OFF
        self._schedule = RetrySchedule(outage)
        self._queue = SendQueue()
        self._pacer = DestinationPacer()
        self._in_flight: Send | None = None
        self._number = 0
        self._limit = MAX_PDUS + MAX_EDUS
        self._refusals = 0
        # True while it is unknown what is queued in Postgres. Rooms that get new events during the count
        # are collected in `_touched`.
        self._is_uncounted = True
        self._touched: set[str] = set()

    def receive(self, message: Input, now_ms: int) -> list[Effect]:
        """Handle an input and return the effects to perform, in order."""
        transition = self.TRANSITIONS.get((self.state, type(message)))
        assert transition is not None, f"{type(message).__name__} while {self.state}: unexpected input"
        effects = transition.action(self, message, now_ms)
        assert self.state in transition.to, f"{type(message).__name__} led to {self.state}"
        return effects

    def deadline(self) -> int | None:
        """Return when a `Timer` input is due, or None. Other inputs may arrive earlier."""
        if self.state is State.BACKING_OFF:
            return self._schedule.retry_at
        if self.state not in {State.PACED, State.SENDING}:
            return None
        waiting = self._queue.waiting()
        if not waiting:
            return None
        allowed_at = self._pacer.allowed_at(waiting) if self.state is State.PACED else None
        times = [at for at in (allowed_at, self._pacer.probe_at(waiting)) if at is not None]
        return min(times, default=None)

    def is_at_rest(self) -> bool:
        """Whether the machine can be discarded: nothing is queued, or the server has been unavailable for
        long and the whole queue is in Postgres."""
        is_unavailable = self.state is State.BACKING_OFF and self._schedule.failing_since is not None
        return self.state is State.IDLE or (is_unavailable and self._is_uncounted)

    def view(self) -> DestinationView:
        return DestinationView(
            self.state,
            self._is_uncounted or not self._queue.is_complete(),
            self._in_flight,
            self._schedule.failures,
            self._schedule.failing_since,
            self._schedule.retry_at if self.state is State.BACKING_OFF else None,
        )

    # ---- inputs --------------------------------------------------------------------------------------

    def _enqueue(self, queued: QueuedItems, now_ms: int) -> list[Effect]:
        if not self._is_uncounted:
            stale = self._queue.add(queued.pdus, queued.edus)
            return [*_stale(stale), *self._loads()]
        if self.state is State.SURVEYING:
            # The events may have been committed after the count began; earlier ones are counted.
            self._touched.update(pdu.room_id for pdu in queued.pdus)
        ephemeral = [edu for edu in queued.edus if edu.ephemeral]
        if self._schedule.failing_since is None:
            # The server is not known to fail: the EDUs are delayed only until the queue is counted.
            return _stale(self._queue.add((), ephemeral))
        return _stale(ephemeral)

    def _enqueue_and_send(self, queued: QueuedItems, now_ms: int) -> list[Effect]:
        return [*self._enqueue(queued, now_ms), *self._send_next(now_ms)]

    def _load(self, result: LoadResult, now_ms: int) -> list[Effect]:
        self._queue.loaded(result.lane, result.positions)
        return self._loads()

    def _load_and_send(self, result: LoadResult, now_ms: int) -> list[Effect]:
        loads = self._load(result, now_ms)
        if self._queue.is_loading():
            # Sending everything together makes the same transaction, with the same id, that would have
            # been sent before the process was killed.
            return loads
        return [*loads, *self._send_next(now_ms)]

    def _catch_up(self, survey: SurveyResult, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for backlog in survey.rooms:
            self._queue.mark_more(backlog.room_id)
            if backlog.count > MAX_BACKLOG:
                effects.append(Skip(backlog.room_id, backlog.newest))
        for room_id in self._touched:
            self._queue.mark_more(room_id)
        self._queue.mark_more(None)
        self._is_uncounted = False
        self._touched.clear()
        self._pacer.start(now_ms)
        return [*effects, *self._loads(), *self._send_next(now_ms)]

    def _succeed(self, success: TransactionSuccess, now_ms: int) -> list[Effect]:
        sent = self._take_in_flight()
        self._limit = min(self._limit * 2, MAX_PDUS + MAX_EDUS)
        self._refusals = 0
        if success.processed:
            self._pacer.processed(sent.pdus, now_ms)
        else:
            self._pacer.staged(sent.pdus, now_ms)
        return [*self._remove(sent, RemovalReason.DELIVERED), *self._send_next(now_ms)]

    def _fail(self, failed: TransactionFailure, now_ms: int) -> list[Effect]:
        match failed.failure.kind:
            case FailureKind.AWAY:
                return self._back_off(failed, now_ms)
            case FailureKind.BUSY:
                was_failing = self._schedule.failing_since is not None
                self._schedule.busy(failed, now_ms)
                self.state = State.BACKING_OFF
                return [StoreOutage(None)] if was_failing else []
            case FailureKind.OBJECTED:
                return self._bisect(failed, now_ms)

    def _request_received(self, request: PeerRequest, now_ms: int) -> list[Effect]:
        self._schedule.request_received()
        return []

    def _request_received_and_retry(self, request: PeerRequest, now_ms: int) -> list[Effect]:
        self._schedule.request_received()
        return self._retry(request, now_ms)

    def _retry(self, message: Timer | PeerRequest, now_ms: int) -> list[Effect]:
        return self._send_next(now_ms) if self._schedule.is_due(now_ms) else []

    def _progress(self, progress: PeerProgress | ProbeResult, now_ms: int) -> list[Effect]:
        if isinstance(progress, ProbeResult):
            self._pacer.probed(progress.room_id, progress.position, now_ms, has_it=progress.has_it)
        else:
            self._pacer.confirmed(progress.room_id, progress.position, now_ms)
        return []

    def _progress_and_probe(self, progress: PeerProgress | ProbeResult, now_ms: int) -> list[Effect]:
        return [*self._progress(progress, now_ms), *self._probes(now_ms)]

    def _progress_and_send(self, progress: PeerProgress | ProbeResult, now_ms: int) -> list[Effect]:
        return [*self._progress(progress, now_ms), *self._send_next(now_ms)]

    def _probe(self, timer: Timer, now_ms: int) -> list[Effect]:
        return self._probes(now_ms)

    def _send_on_timer(self, timer: Timer, now_ms: int) -> list[Effect]:
        return self._send_next(now_ms)

    def _ignore(self, timer: Timer, now_ms: int) -> list[Effect]:
        return []

    # ---- decisions -----------------------------------------------------------------------------------

    def _send_next(self, now_ms: int) -> list[Effect]:
        """Decide what to do next while no request is running."""
        if self._is_uncounted:
            self.state = State.SURVEYING
            return [Survey()]
        if self._in_flight is None:
            if self._queue.is_empty:
                self.state = State.IDLE
                return []
            self._in_flight = self._choose(now_ms)
        sending: list[Effect] = []
        if self._in_flight is not None:
            sending = [self._attempt(self._in_flight, now_ms)]
        else:
            self.state = State.PACED if self._queue.waiting() else State.IDLE
        return [*sending, *self._loads(), *self._probes(now_ms)]

    def _attempt(self, send: Send, now_ms: int) -> Send:
        self.state = State.SENDING
        self._schedule.attempted(now_ms)
        self._pacer.sent(send.pdus, now_ms)
        return send

    def _choose(self, now_ms: int) -> Send | None:
        allowances = self._pacer.allowances(self._queue.waiting(), now_ms)
        pdus = self._queue.take_pdus(min(MAX_PDUS, self._limit), allowances)
        edus = self._queue.take_edus(min(MAX_EDUS, self._limit - len(pdus)))
        if not pdus and not edus:
            return None
        self._number += 1
        return Send(self._number, pdus, edus)

    def _back_off(self, failed: TransactionFailure, now_ms: int) -> list[Effect]:
        self.state = State.BACKING_OFF
        store_outage = StoreOutage(self._schedule.unavailable(failed, now_ms))
        if self._is_uncounted or not self._schedule.is_long_outage(now_ms):
            return [store_outage]
        # Only the transaction in flight stays in memory: the outage may last for months.
        stale = self._queue.clear()
        self._pacer.clear()
        self._is_uncounted = True
        if self._in_flight is not None:
            self._queue.mark_in_flight(self._in_flight.pdus, self._in_flight.edus)
        return [store_outage, *_stale(stale)]

    def _bisect(self, failed: TransactionFailure, now_ms: int) -> list[Effect]:
        """Bisect the transaction to find the item that the peer refuses, and drop only that one."""
        assert self._in_flight is not None, "only a sent transaction can fail"
        count = len(self._in_flight.pdus) + len(self._in_flight.edus)
        if count > 1:
            refused = self._take_in_flight()
            self._queue.put_back(refused.pdus, refused.edus)
            self._limit = count // 2
            return [*self._end_outage(), *self._send_next(now_ms)]
        if self._refusals >= MAX_REFUSALS:
            return self._back_off(failed, now_ms)
        self._refusals += 1
        return [*self._remove(self._take_in_flight(), RemovalReason.OBJECTED), *self._send_next(now_ms)]

    def _take_in_flight(self) -> Send:
        assert self._in_flight is not None, "only a sent transaction gets a response"
        ended, self._in_flight = self._in_flight, None
        return ended

    def _remove(self, sent: Send, reason: RemovalReason) -> list[Effect]:
        self._queue.remove(sent.pdus, sent.edus)
        return [Remove(sent.pdus, sent.edus, reason), *self._end_outage()]

    def _end_outage(self) -> list[Effect]:
        was_failing = self._schedule.failing_since is not None
        self._schedule.succeeded()
        return [StoreOutage(None)] if was_failing else []

    def _loads(self) -> list[Effect]:
        return [Load(lane) for lane in self._queue.start_loads()]

    def _probes(self, now_ms: int) -> list[Effect]:
        return [Probe(*position) for position in self._pacer.probes(self._queue.waiting(), now_ms)]

    # ---- transitions ---------------------------------------------------------------------------------

    # Other combinations cannot occur: a response follows a request, and a result follows its effect.
    TRANSITIONS: ClassVar[Mapping[tuple[State, type[Input]], Transition]] = {
        (State.IDLE, QueuedItems): _transition(_enqueue_and_send, *_READY),
        (State.PACED, QueuedItems): _transition(_enqueue_and_send, State.PACED, State.SENDING),
        (State.SENDING, QueuedItems): _transition(_enqueue, State.SENDING),
        (State.BACKING_OFF, QueuedItems): _transition(_enqueue, State.BACKING_OFF),
        (State.SURVEYING, QueuedItems): _transition(_enqueue, State.SURVEYING),
        (State.IDLE, LoadResult): _transition(_load_and_send, *_READY),
        (State.PACED, LoadResult): _transition(_load_and_send, State.PACED, State.SENDING),
        (State.SENDING, LoadResult): _transition(_load, State.SENDING),
        (State.BACKING_OFF, LoadResult): _transition(_load, State.BACKING_OFF),
        (State.SURVEYING, LoadResult): _transition(_load, State.SURVEYING),
        (State.SURVEYING, SurveyResult): _transition(_catch_up, State.IDLE, State.SENDING),
        (State.SENDING, TransactionSuccess): _transition(_succeed, *_READY),
        (State.SENDING, TransactionFailure): _transition(_fail, *_READY, State.BACKING_OFF),
        (State.IDLE, PeerRequest): _transition(_request_received, State.IDLE),
        (State.PACED, PeerRequest): _transition(_request_received, State.PACED),
        (State.SENDING, PeerRequest): _transition(_request_received, State.SENDING),
        (State.SURVEYING, PeerRequest): _transition(_request_received, State.SURVEYING),
        (State.BACKING_OFF, PeerRequest): _transition(_request_received_and_retry, *_AFTER_RETRY),
        (State.IDLE, PeerProgress): _transition(_progress, State.IDLE),
        (State.PACED, PeerProgress): _transition(_progress_and_send, State.PACED, State.SENDING),
        (State.SENDING, PeerProgress): _transition(_progress_and_probe, State.SENDING),
        (State.BACKING_OFF, PeerProgress): _transition(_progress, State.BACKING_OFF),
        (State.SURVEYING, PeerProgress): _transition(_progress, State.SURVEYING),
        (State.IDLE, ProbeResult): _transition(_progress, State.IDLE),
        (State.PACED, ProbeResult): _transition(_progress_and_send, State.PACED, State.SENDING),
        (State.SENDING, ProbeResult): _transition(_progress_and_probe, State.SENDING),
        (State.BACKING_OFF, ProbeResult): _transition(_progress, State.BACKING_OFF),
        (State.SURVEYING, ProbeResult): _transition(_progress, State.SURVEYING),
        (State.IDLE, Timer): _transition(_ignore, State.IDLE),
        (State.PACED, Timer): _transition(_send_on_timer, State.PACED, State.SENDING),
        (State.SENDING, Timer): _transition(_probe, State.SENDING),
        (State.BACKING_OFF, Timer): _transition(_retry, *_AFTER_RETRY),
        (State.SURVEYING, Timer): _transition(_ignore, State.SURVEYING),
    }


def _stale(edus: Iterable[EduRef]) -> list[Effect]:
    stale = tuple(edus)
    return [Remove((), stale, RemovalReason.STALE)] if stale else []
