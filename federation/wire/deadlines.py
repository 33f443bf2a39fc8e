"""The clock of one connection: its phase, until when that may last, and what follows when it lasts longer.

A machine. `connection.py` feeds it what happens and keeps one timer at `deadline()`.
"""

from collections.abc import Mapping
from enum import StrEnum

from federation.wire.limits import Limits


class Phase(StrEnum):
    """Where a connection stands. The values are metric labels."""

    OPENING = "opening"  # nothing has arrived yet
    HEAD = "head"  # a request's head is arriving
    ANSWERING = "answering"  # a request is being worked on: our time, not the peer's
    BODY = "body"  # that request waits for the rest of its body
    IDLE = "idle"  # answered; the next request may come
    LEAVING = "leaving"  # the last answer is out; whatever still comes is dropped


class Happening(StrEnum):
    BYTES = "bytes"  # some arrived, and completed no head
    REQUEST = "request"  # some arrived, and completed a head
    WAITS_FOR_BODY = "waits for body"
    BODY_COMPLETE = "body complete"
    ANSWERED = "answered"
    LAST_ANSWER = "last answer"
    DEADLINE = "deadline"
    STALLED = "stalled"  # the peer does not read; what we write piles up
    FLOWING = "flowing"


class Effect(StrEnum):
    NOTHING = "nothing"
    TIME_OUT_HEAD = "time out head"  # answer 408; no request exists yet
    REFUSE_HEAD = "refuse head"  # answer 431; no request exists yet
    FAIL_BODY = "fail body"  # let the request that waits answer 408
    CLOSE = "close"
    ABORT = "abort"


# What is not listed leaves the phase as it is: a request arrives while another is answered, and so on.
TRANSITIONS: Mapping[tuple[Phase, Happening], Phase] = {
    (Phase.OPENING, Happening.BYTES): Phase.HEAD,
    (Phase.OPENING, Happening.REQUEST): Phase.ANSWERING,
    (Phase.HEAD, Happening.REQUEST): Phase.ANSWERING,
    (Phase.IDLE, Happening.BYTES): Phase.HEAD,
    (Phase.IDLE, Happening.REQUEST): Phase.ANSWERING,
    (Phase.ANSWERING, Happening.WAITS_FOR_BODY): Phase.BODY,
    (Phase.BODY, Happening.BODY_COMPLETE): Phase.ANSWERING,
    (Phase.ANSWERING, Happening.ANSWERED): Phase.IDLE,
    (Phase.BODY, Happening.ANSWERED): Phase.IDLE,
    **{(phase, Happening.LAST_ANSWER): Phase.LEAVING for phase in Phase},
}

# What follows when a phase outlasts its deadline. ANSWERING has none of its own.
OVERDUE: Mapping[Phase, Effect] = {
    Phase.OPENING: Effect.CLOSE,
    Phase.HEAD: Effect.TIME_OUT_HEAD,
    Phase.BODY: Effect.FAIL_BODY,
    Phase.IDLE: Effect.CLOSE,
    Phase.LEAVING: Effect.ABORT,
}


class Deadlines:
    """One connection's. Times are seconds of whatever clock `now` is read from."""

    __slots__ = ("_body_until", "_limits", "_stalled_until", "_until", "_window_bytes", "head_bytes", "phase")

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self.phase = Phase.OPENING
        self.head_bytes = 0
        self._until: float | None = now + limits.head_timeout
        self._stalled_until: float | None = None
        self._body_until = 0.0
        self._window_bytes = 0

    def deadline(self) -> float | None:
        """When to call with DEADLINE, unless something happens before; None while nothing can expire."""
        if self._stalled_until is None:
            return self._until
        return self._stalled_until if self._until is None else min(self._until, self._stalled_until)

    def receive(self, happening: Happening, now: float, size: int = 0) -> Effect:
        """`size` counts the bytes of BYTES and REQUEST."""
        if happening is Happening.DEADLINE:
            return self._expire(now)
        if happening is Happening.STALLED:
            self._stalled_until = now + self._limits.stall_timeout
            return Effect.NOTHING
        if happening is Happening.FLOWING:
            self._stalled_until = None
            return Effect.NOTHING
        before = self.phase
        after = TRANSITIONS.get((before, happening), before)
        if after is not before:
            self._enter(after, now)
        return self._count(happening, size)

    def _enter(self, phase: Phase, now: float) -> None:
        limits = self._limits
        self.phase = phase
        if phase is Phase.ANSWERING:
            self._until = None
        elif phase is Phase.IDLE:
            self._until = now + limits.idle_timeout
            self.head_bytes = 0
        elif phase is Phase.HEAD:
            self._until = now + limits.head_timeout
        elif phase is Phase.BODY:
            self._body_until = now + limits.body_timeout
            self._open_window(now)
        else:
            self._until = now + limits.linger_timeout

    def _count(self, happening: Happening, size: int) -> Effect:
        if self.phase is Phase.BODY:
            self._window_bytes += size
        elif happening is Happening.BYTES and self.phase is Phase.HEAD:
            self.head_bytes += size
            if self.head_bytes > self._limits.max_head:
                return Effect.REFUSE_HEAD
        elif happening is Happening.REQUEST:
            self.head_bytes += size
        return Effect.NOTHING

    def _open_window(self, now: float) -> None:
        self._window_bytes = 0
        self._until = min(self._body_until, now + self._limits.body_progress_timeout)

    def _expire(self, now: float) -> Effect:
        if self._stalled_until is not None and now >= self._stalled_until:
            return Effect.ABORT
        if self._until is None or now < self._until:
            return Effect.NOTHING
        if (
            self.phase is Phase.BODY
            and now < self._body_until
            and self._window_bytes >= self._limits.body_progress
        ):
            self._open_window(now)
            return Effect.NOTHING
        self._until = None
        return OVERDUE[self.phase]
