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
    Answered,
    Effect,
    Failed,
    Fate,
    Forget,
    Heard,
    Input,
    Load,
    Loaded,
    Outage,
    Probe,
    Probed,
    Progressed,
    Queued,
    Remember,
    Send,
    Skip,
    Survey,
    Surveyed,
    Timer,
)
from federation.outbox.pacing import RoomPaces
from federation.outbox.retry_schedule import RetrySchedule
from federation.outbox.send_failure import FailureKind
from federation.outbox.send_queue import EduRef, SendQueue

MOST_PDUS: Final = 50
MOST_EDUS: Final = 100
MOST_BACKLOG: Final = 500
"""After an outage, a room's queue of up to this many events is sent completely: at fifty a second that
takes ten seconds. Of a longer queue only the newest event is sent, and the peer fetches what it needs of
the rest."""
MOST_OBJECTIONS: Final = 5
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
class View:
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
    """The action for an input and the states in which it may leave the machine."""

    action: "Callable[[Destination, Any, int], list[Effect]]"
    to: frozenset[State]


def _to(action: "Callable[[Destination, Any, int], list[Effect]]", *states: State) -> Transition:
    return Transition(action, frozenset(states))


_FREE: Final = (State.IDLE, State.PACED, State.SENDING)
# The failed transaction is still in flight, or the queue has to be counted first.
_RETRIED: Final = (State.BACKING_OFF, State.SENDING, State.SURVEYING)


class Destination:
    """`now_ms` is milliseconds since 1970 and must never decrease. The first attempt is due at once, or at
    the `retry_at` of the stored outage."""

    def __init__(self, outage: Outage | None = None) -> None:
        self.state = State.BACKING_OFF
        self._schedule = RetrySchedule(outage)
        self._queue = SendQueue()
        self._paces = RoomPaces()
        self._in_flight: Send | None = None
        self._number = 0
        self._limit = MOST_PDUS + MOST_EDUS
        self._objections = 0
        # True while it is unknown what is queued in Postgres. Rooms that get new events during the count
        # are collected in `_touched`.
        self._behind = True
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
        allowed_at = self._paces.allowed_at(waiting) if self.state is State.PACED else None
        times = [at for at in (allowed_at, self._paces.probe_at(waiting)) if at is not None]
        return min(times, default=None)

    def is_at_rest(self) -> bool:
        """Whether the machine can be discarded: nothing is queued, or the server has been unavailable for
        long and the whole queue is in Postgres."""
        is_away = self.state is State.BACKING_OFF and self._schedule.failing_since is not None
        return self.state is State.IDLE or (is_away and self._behind)

    def view(self) -> View:
        return View(
            self.state,
            self._behind or not self._queue.is_complete(),
            self._in_flight,
            self._schedule.failures,
            self._schedule.failing_since,
            self._schedule.retry_at if self.state is State.BACKING_OFF else None,
        )

    # ---- inputs --------------------------------------------------------------------------------------

    def _keep(self, queued: Queued, now_ms: int) -> list[Effect]:
        if not self._behind:
            stale = self._queue.add(queued.pdus, queued.edus)
            return [*_stale(stale), *self._loads()]
        if self.state is State.SURVEYING:
            # The events may have been committed after the count began; earlier ones are counted.
            self._touched.update(pdu.room_id for pdu in queued.pdus)
        passing = [edu for edu in queued.edus if edu.ephemeral]
        if self._schedule.failing_since is None:
            # The server is not known to fail: the EDUs are delayed only until the queue is counted.
            return _stale(self._queue.add((), passing))
        return _stale(passing)

    def _keep_and_go(self, queued: Queued, now_ms: int) -> list[Effect]:
        return [*self._keep(queued, now_ms), *self._go(now_ms)]

    def _load(self, loaded: Loaded, now_ms: int) -> list[Effect]:
        self._queue.loaded(loaded.lane, loaded.positions)
        return self._loads()

    def _load_and_go(self, loaded: Loaded, now_ms: int) -> list[Effect]:
        loads = self._load(loaded, now_ms)
        if self._queue.is_loading():
            # Sending everything together makes the same transaction, with the same id, that would have
            # been sent before the process was killed.
            return loads
        return [*loads, *self._go(now_ms)]

    def _catch_up(self, surveyed: Surveyed, now_ms: int) -> list[Effect]:
        effects: list[Effect] = []
        for backlog in surveyed.rooms:
            self._queue.expect(backlog.room_id)
            if backlog.count > MOST_BACKLOG:
                effects.append(Skip(backlog.room_id, backlog.newest))
        for room_id in self._touched:
            self._queue.expect(room_id)
        self._queue.expect(None)
        self._behind = False
        self._touched.clear()
        self._paces.begin(now_ms)
        return [*effects, *self._loads(), *self._go(now_ms)]

    def _succeed(self, answered: Answered, now_ms: int) -> list[Effect]:
        done = self._landed()
        self._limit = min(self._limit * 2, MOST_PDUS + MOST_EDUS)
        self._objections = 0
        if answered.processed:
            self._paces.processed(done.pdus, now_ms)
        else:
            self._paces.staged(done.pdus, now_ms)
        return [*self._forget(done, Fate.DELIVERED), *self._go(now_ms)]

    def _fail(self, failed: Failed, now_ms: int) -> list[Effect]:
        match failed.failure.kind:
            case FailureKind.AWAY:
                return self._back_off(failed, now_ms)
            case FailureKind.BUSY:
                was_failing = self._schedule.failing_since is not None
                self._schedule.busy(failed, now_ms)
                self.state = State.BACKING_OFF
                return [Remember(None)] if was_failing else []
            case FailureKind.OBJECTED:
                return self._divide(failed, now_ms)

    def _hear(self, heard: Heard, now_ms: int) -> list[Effect]:
        self._schedule.heard()
        return []

    def _hear_and_retry(self, heard: Heard, now_ms: int) -> list[Effect]:
        self._schedule.heard()
        return self._retry(heard, now_ms)

    def _retry(self, message: Timer | Heard, now_ms: int) -> list[Effect]:
        return self._go(now_ms) if self._schedule.is_due(now_ms) else []

    def _note(self, sign: Progressed | Probed, now_ms: int) -> list[Effect]:
        if isinstance(sign, Probed):
            self._paces.probed(sign.room_id, sign.position, now_ms, has_it=sign.has_it)
        else:
            self._paces.has(sign.room_id, sign.position, now_ms)
        return []

    def _note_and_probe(self, sign: Progressed | Probed, now_ms: int) -> list[Effect]:
        return [*self._note(sign, now_ms), *self._probes(now_ms)]

    def _note_and_go(self, sign: Progressed | Probed, now_ms: int) -> list[Effect]:
        return [*self._note(sign, now_ms), *self._go(now_ms)]

    def _probe(self, timer: Timer, now_ms: int) -> list[Effect]:
        return self._probes(now_ms)

    def _go_on(self, timer: Timer, now_ms: int) -> list[Effect]:
        return self._go(now_ms)

    def _ignore(self, timer: Timer, now_ms: int) -> list[Effect]:
        return []

    # ---- decisions -----------------------------------------------------------------------------------

    def _go(self, now_ms: int) -> list[Effect]:
        """Decide what to do next while no request is running."""
        if self._behind:
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
        self._paces.sent(send.pdus, now_ms)
        return send

    def _choose(self, now_ms: int) -> Send | None:
        allowances = self._paces.allowances(self._queue.waiting(), now_ms)
        pdus = self._queue.take_pdus(min(MOST_PDUS, self._limit), allowances)
        edus = self._queue.take_edus(min(MOST_EDUS, self._limit - len(pdus)))
        if not pdus and not edus:
            return None
        self._number += 1
        return Send(self._number, pdus, edus)

    def _back_off(self, failed: Failed, now_ms: int) -> list[Effect]:
        self.state = State.BACKING_OFF
        remember = Remember(self._schedule.away(failed, now_ms))
        if self._behind or not self._schedule.is_long(now_ms):
            return [remember]
        # Only the transaction in flight stays in memory: the outage may last for months.
        stale = self._queue.clear()
        self._paces.clear()
        self._behind = True
        if self._in_flight is not None:
            self._queue.put_away(self._in_flight.pdus, self._in_flight.edus)
        return [remember, *_stale(stale)]

    def _divide(self, failed: Failed, now_ms: int) -> list[Effect]:
        """Bisect the transaction to find the item that the peer refuses, and drop only that one."""
        assert self._in_flight is not None, "only a sent transaction can fail"
        count = len(self._in_flight.pdus) + len(self._in_flight.edus)
        if count > 1:
            refused = self._landed()
            self._queue.give_back(refused.pdus, refused.edus)
            self._limit = count // 2
            return [*self._is_well(), *self._go(now_ms)]
        if self._objections >= MOST_OBJECTIONS:
            return self._back_off(failed, now_ms)
        self._objections += 1
        return [*self._forget(self._landed(), Fate.OBJECTED), *self._go(now_ms)]

    def _landed(self) -> Send:
        assert self._in_flight is not None, "only a sent transaction gets a response"
        landed, self._in_flight = self._in_flight, None
        return landed

    def _forget(self, sent: Send, fate: Fate) -> list[Effect]:
        self._queue.forget(sent.pdus, sent.edus)
        return [Forget(sent.pdus, sent.edus, fate), *self._is_well()]

    def _is_well(self) -> list[Effect]:
        was_failing = self._schedule.failing_since is not None
        self._schedule.well()
        return [Remember(None)] if was_failing else []

    def _loads(self) -> list[Effect]:
        return [Load(lane) for lane in self._queue.to_load()]

    def _probes(self, now_ms: int) -> list[Effect]:
        return [Probe(*place) for place in self._paces.probes(self._queue.waiting(), now_ms)]

    # ---- transitions ---------------------------------------------------------------------------------

    # Other combinations cannot occur: a response follows a request, and a result follows its effect.
    TRANSITIONS: ClassVar[Mapping[tuple[State, type[Input]], Transition]] = {
        (State.IDLE, Queued): _to(_keep_and_go, *_FREE),
        (State.PACED, Queued): _to(_keep_and_go, State.PACED, State.SENDING),
        (State.SENDING, Queued): _to(_keep, State.SENDING),
        (State.BACKING_OFF, Queued): _to(_keep, State.BACKING_OFF),
        (State.SURVEYING, Queued): _to(_keep, State.SURVEYING),
        (State.IDLE, Loaded): _to(_load_and_go, *_FREE),
        (State.PACED, Loaded): _to(_load_and_go, State.PACED, State.SENDING),
        (State.SENDING, Loaded): _to(_load, State.SENDING),
        (State.BACKING_OFF, Loaded): _to(_load, State.BACKING_OFF),
        (State.SURVEYING, Loaded): _to(_load, State.SURVEYING),
        (State.SURVEYING, Surveyed): _to(_catch_up, State.IDLE, State.SENDING),
        (State.SENDING, Answered): _to(_succeed, *_FREE),
        (State.SENDING, Failed): _to(_fail, *_FREE, State.BACKING_OFF),
        (State.IDLE, Heard): _to(_hear, State.IDLE),
        (State.PACED, Heard): _to(_hear, State.PACED),
        (State.SENDING, Heard): _to(_hear, State.SENDING),
        (State.SURVEYING, Heard): _to(_hear, State.SURVEYING),
        (State.BACKING_OFF, Heard): _to(_hear_and_retry, *_RETRIED),
        (State.IDLE, Progressed): _to(_note, State.IDLE),
        (State.PACED, Progressed): _to(_note_and_go, State.PACED, State.SENDING),
        (State.SENDING, Progressed): _to(_note_and_probe, State.SENDING),
        (State.BACKING_OFF, Progressed): _to(_note, State.BACKING_OFF),
        (State.SURVEYING, Progressed): _to(_note, State.SURVEYING),
        (State.IDLE, Probed): _to(_note, State.IDLE),
        (State.PACED, Probed): _to(_note_and_go, State.PACED, State.SENDING),
        (State.SENDING, Probed): _to(_note_and_probe, State.SENDING),
        (State.BACKING_OFF, Probed): _to(_note, State.BACKING_OFF),
        (State.SURVEYING, Probed): _to(_note, State.SURVEYING),
        (State.IDLE, Timer): _to(_ignore, State.IDLE),
        (State.PACED, Timer): _to(_go_on, State.PACED, State.SENDING),
        (State.SENDING, Timer): _to(_probe, State.SENDING),
        (State.BACKING_OFF, Timer): _to(_retry, *_RETRIED),
        (State.SURVEYING, Timer): _to(_ignore, State.SURVEYING),
    }


def _stale(edus: Iterable[EduRef]) -> list[Effect]:
    stale = tuple(edus)
    return [Forget((), stale, Fate.STALE)] if stale else []
