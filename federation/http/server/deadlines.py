"""The state machine of a connection's deadlines: its phase, how long that may last, and what happens
then.

`connection.py` passes it events and keeps one timer at `deadline`.
"""

import math
from collections.abc import Mapping
from enum import StrEnum

from federation.http.server.capacity import Limits

NO_DEADLINE = math.inf


class Phase(StrEnum):
    """The phase of a connection. The values are metric labels."""

    OPENING = "opening"  # nothing has arrived yet
    HEAD = "head"  # a request's head is arriving
    ANSWERING = "answering"  # a request is being handled: this server's time, not the peer's
    BODY = "body"  # that request waits for the rest of its body
    IDLE = "idle"  # the response is written; the next request may arrive
    LEAVING = "leaving"  # the last response is written; further bytes are dropped


class ConnectionEvent(StrEnum):
    BYTES = "bytes"  # bytes that complete no head
    REQUEST = "request"  # bytes that complete a head
    WAITS_FOR_BODY = "waits for body"
    BODY_COMPLETE = "body complete"
    RESPONDED = "responded"
    LAST_RESPONSE = "last response"
    DEADLINE = "deadline"
    STALLED = "stalled"  # the peer does not read, so the write buffer is full
    FLOWING = "flowing"


class Effect(StrEnum):
    NOTHING = "nothing"
    TIME_OUT_HEAD = "time out head"  # respond with 408; no request exists yet
    REFUSE_HEAD = "refuse head"  # respond with 431; no request exists yet
    FAIL_BODY = "fail body"  # let the waiting request respond with 408
    CLOSE = "close"
    ABORT = "abort"


# Other events leave the phase unchanged, such as a request that arrives while another one is handled.
TRANSITIONS: Mapping[tuple[Phase, ConnectionEvent], Phase] = {
    (Phase.OPENING, ConnectionEvent.BYTES): Phase.HEAD,
    (Phase.OPENING, ConnectionEvent.REQUEST): Phase.ANSWERING,
    (Phase.HEAD, ConnectionEvent.REQUEST): Phase.ANSWERING,
    (Phase.IDLE, ConnectionEvent.BYTES): Phase.HEAD,
    (Phase.IDLE, ConnectionEvent.REQUEST): Phase.ANSWERING,
    (Phase.ANSWERING, ConnectionEvent.WAITS_FOR_BODY): Phase.BODY,
    (Phase.BODY, ConnectionEvent.BODY_COMPLETE): Phase.ANSWERING,
    (Phase.ANSWERING, ConnectionEvent.RESPONDED): Phase.IDLE,
    (Phase.BODY, ConnectionEvent.RESPONDED): Phase.IDLE,
    **{(phase, ConnectionEvent.LAST_RESPONSE): Phase.LEAVING for phase in Phase},
}

# The effect when a phase exceeds its deadline. ANSWERING has no deadline.
EXPIRY_EFFECTS: Mapping[Phase, Effect] = {
    Phase.OPENING: Effect.CLOSE,
    Phase.HEAD: Effect.TIME_OUT_HEAD,
    Phase.BODY: Effect.FAIL_BODY,
    Phase.IDLE: Effect.CLOSE,
    Phase.LEAVING: Effect.ABORT,
}


# Looking up enum members in their class is slow in Python 3.11, and these are used for each event.
_BODY = Phase.BODY
_HEAD = Phase.HEAD
_IDLE = Phase.IDLE
_NOTHING = Effect.NOTHING


class Deadlines:
    """The deadlines of one connection. Times are seconds of the clock of `now`.

    `deadline` is when to pass DEADLINE, unless another event occurs before; `NO_DEADLINE` while nothing
    can expire. `received` counts the bytes since the previous response.
    """

    __slots__ = (
        "_body_until",
        "_durations",
        "_limits",
        "_received_at_check",
        "_stalled_until",
        "_until",
        "deadline",
        "phase",
        "received",
    )

    def __init__(self, limits: Limits, now: float) -> None:
        self._limits = limits
        self._durations = {
            Phase.OPENING: limits.head_timeout,
            Phase.HEAD: limits.head_timeout,
            Phase.ANSWERING: NO_DEADLINE,
            Phase.BODY: min(limits.body_timeout, limits.body_progress_timeout),
            Phase.IDLE: limits.idle_timeout,
            Phase.LEAVING: limits.linger_timeout,
        }
        self.phase = Phase.OPENING
        self.received = 0
        self._until = self.deadline = now + limits.head_timeout
        self._stalled_until = NO_DEADLINE
        self._body_until = NO_DEADLINE
        self._received_at_check = 0

    def receive(self, event: ConnectionEvent, now: float, size: int = 0) -> Effect:
        """Handle an event. `size` is the number of bytes of BYTES and REQUEST."""
        self.received += size
        after = TRANSITIONS.get((self.phase, event))
        if after is None:
            return self._stay(event, now)
        self.phase = after
        self._set_deadline(now + self._durations[after])
        if after is _IDLE:
            self.received = 0
        elif after is _BODY:
            self._body_until = now + self._limits.body_timeout
            self._received_at_check = self.received
        elif after is _HEAD:
            return self._check_head_size()
        return _NOTHING

    def _stay(self, event: ConnectionEvent, now: float) -> Effect:
        if event is ConnectionEvent.DEADLINE:
            return self._expire(now)
        if event is ConnectionEvent.STALLED:
            self._stalled_until = now + self._limits.stall_timeout
            self._set_deadline(self._until)
        elif event is ConnectionEvent.FLOWING:
            self._stalled_until = NO_DEADLINE
            self._set_deadline(self._until)
        elif self.phase is Phase.HEAD:
            return self._check_head_size()
        return Effect.NOTHING

    def _check_head_size(self) -> Effect:
        return Effect.REFUSE_HEAD if self.received > self._limits.max_head else Effect.NOTHING

    def _set_deadline(self, until: float) -> None:
        self._until = until
        self.deadline = min(until, self._stalled_until)

    def _expire(self, now: float) -> Effect:
        if now >= self._stalled_until:
            self._stalled_until = NO_DEADLINE
            self._set_deadline(self._until)
            return Effect.ABORT
        if now < self._until:
            return Effect.NOTHING
        if (
            self.phase is Phase.BODY
            and now < self._body_until
            and self.received - self._received_at_check >= self._limits.body_progress
        ):
            self._received_at_check = self.received
            self._set_deadline(min(self._body_until, now + self._limits.body_progress_timeout))
            return Effect.NOTHING
        self._set_deadline(NO_DEADLINE)
        return EXPIRY_EFFECTS[self.phase]
