"""Decides whether the homeserver is available: when to check it, when requests have to wait, and when to ping
it.

A state machine: `receive(input, now) -> effects`, `deadline()`. A single request without a response proves
little, so a check follows, and requests continue until the check has failed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, TypeAlias

FIRST_PAUSE: Final = 1.0
MAX_PAUSE: Final = 30.0
BACKOFF_FACTOR: Final = 1.5
"""Factor between the pauses, in seconds, between two checks of an unavailable homeserver. Most restarts take
less than half a minute."""
CHECK_INTERVAL: Final = 1.0
"""Seconds after a successful check in which no other is made: one particular request may fail permanently."""
PING_AFTER_SILENCE: Final = 300.0
"""Seconds without traffic from the homeserver, after which this node requests a ping. A homeserver that has
stopped sending to this node would stay silent for long; a ping makes it send its queue immediately."""
PING_RETRY: Final = 30.0
"""Seconds between two pings while the homeserver cannot reach this node."""


class State(Enum):
    AVAILABLE = "available"
    SUSPECTED = "suspected"
    UNAVAILABLE = "unavailable"


# ---- inputs ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A request to the homeserver got no response."""


@dataclass(frozen=True, slots=True)
class RequestAnswered:
    """A request to the homeserver got a response."""


@dataclass(frozen=True, slots=True)
class TrafficReceived:
    """The homeserver has sent something to this node."""


@dataclass(frozen=True, slots=True)
class CheckFinished:
    """`problem` is a sentence; None: the homeserver is available and knows the registration."""

    problem: str | None


@dataclass(frozen=True, slots=True)
class PingFinished:
    """`problem`: why the homeserver cannot reach this node."""

    problem: str | None


@dataclass(frozen=True, slots=True)
class Tick:
    """The deadline has passed."""


Input: TypeAlias = RequestFailed | RequestAnswered | TrafficReceived | CheckFinished | PingFinished | Tick


# ---- effects -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CheckHomeserver:
    """Call the homeserver's whoami endpoint and pass the result in as `CheckFinished`."""


@dataclass(frozen=True, slots=True)
class PingHomeserver:
    """Request a ping from the homeserver and pass the result in as `PingFinished`."""


@dataclass(frozen=True, slots=True)
class MarkUnavailable:
    """From now on requests wait."""

    problem: str


@dataclass(frozen=True, slots=True)
class MarkAvailable:
    """Requests continue. `seconds`: how long the homeserver was unavailable."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ReportUnreachable:
    """The homeserver is available, but cannot reach this node."""

    problem: str


@dataclass(frozen=True, slots=True)
class ReportReachable:
    """The homeserver can reach this node again."""


Effect: TypeAlias = (
    CheckHomeserver | PingHomeserver | MarkUnavailable | MarkAvailable | ReportUnreachable | ReportReachable
)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """`since` is when the homeserver became unavailable, `pause` the pause before the next check. `check_at`
    is the deadline while it is unavailable, `ping_at` while it is available; None while the check or ping is
    running."""

    state: State
    received_at: float
    since: float = 0.0
    pause: float = FIRST_PAUSE
    quiet_until: float = 0.0
    check_at: float | None = None
    ping_at: float | None = None
    is_unreachable: bool = False


_Next: TypeAlias = tuple[_Snapshot, tuple[Effect, ...]]


class AvailabilityMachine:
    """The homeserver counts as available initially: the caller has just checked it."""

    def __init__(self, now: float) -> None:
        self._known = _Snapshot(State.AVAILABLE, now, ping_at=now + PING_AFTER_SILENCE)

    @property
    def state(self) -> State:
        return self._known.state

    @property
    def is_reachable(self) -> bool:
        return not self._known.is_unreachable

    def deadline(self) -> float | None:
        """When a `Tick` is due."""
        return self._known.check_at if self._known.state is State.UNAVAILABLE else self._known.ping_at

    def receive(self, input_: Input, now: float) -> tuple[Effect, ...]:
        act = _TRANSITIONS.get((self._known.state, type(input_)))
        if act is None:
            return ()
        self._known, effects = act(self._known, input_, now)
        return effects


def _suspect(snapshot: _Snapshot, input_: Input, now: float) -> _Next:
    if now < snapshot.quiet_until:
        return snapshot, ()
    return replace(snapshot, state=State.SUSPECTED, since=now), (CheckHomeserver(),)


def _receive_traffic(snapshot: _Snapshot, input_: Input, now: float) -> _Next:
    effects = (ReportReachable(),) if snapshot.is_unreachable else ()
    return replace(snapshot, received_at=now, is_unreachable=False), effects


def _conclude_check(snapshot: _Snapshot, input_: Input, now: float) -> _Next:
    """A check after a failed request has finished."""
    assert isinstance(input_, CheckFinished), "guaranteed by the transition table"
    if input_.problem is None:
        return replace(snapshot, state=State.AVAILABLE, quiet_until=now + CHECK_INTERVAL), ()
    away = replace(snapshot, state=State.UNAVAILABLE, pause=FIRST_PAUSE, check_at=now + FIRST_PAUSE)
    return away, (MarkUnavailable(input_.problem),)


def _conclude_recovery_check(snapshot: _Snapshot, input_: Input, now: float) -> _Next:
    assert isinstance(input_, CheckFinished), "guaranteed by the transition table"
    if input_.problem is not None:
        pause = min(snapshot.pause * BACKOFF_FACTOR, MAX_PAUSE)
        return replace(snapshot, pause=pause, check_at=now + pause), ()
    available = replace(
        snapshot, state=State.AVAILABLE, received_at=now, quiet_until=now + CHECK_INTERVAL, check_at=None, ping_at=None
    )
    # The homeserver has stopped sending meanwhile and would retry only after minutes.
    return available, (MarkAvailable(now - snapshot.since), PingHomeserver())


def _check_now(snapshot: _Snapshot, input_: Input, now: float) -> _Next:
    """The homeserver seems to be available again."""
    return (snapshot, ()) if snapshot.check_at is None else (replace(snapshot, check_at=now), ())


def _check_again(snapshot: _Snapshot, input_: Input, now: float) -> _Next:
    return replace(snapshot, check_at=None), (CheckHomeserver(),)


def _ping_if_due(snapshot: _Snapshot, input_: Input, now: float) -> _Next:
    if snapshot.ping_at is None:
        return snapshot, ()
    due = snapshot.received_at + PING_AFTER_SILENCE
    if snapshot.is_unreachable or now >= due:
        return replace(snapshot, ping_at=None), (PingHomeserver(),)
    return replace(snapshot, ping_at=due), ()


def _conclude_ping(snapshot: _Snapshot, input_: Input, now: float) -> _Next:
    assert isinstance(input_, PingFinished), "guaranteed by the transition table"
    if input_.problem is None:
        reached = replace(snapshot, received_at=now, ping_at=now + PING_AFTER_SILENCE, is_unreachable=False)
        return reached, (ReportReachable(),) if snapshot.is_unreachable else ()
    unreached = replace(snapshot, ping_at=now + PING_RETRY, is_unreachable=True)
    return unreached, () if snapshot.is_unreachable else (ReportUnreachable(input_.problem),)


def _ping_later(snapshot: _Snapshot, input_: Input, now: float) -> _Next:
    """The homeserver became unavailable during a ping."""
    return replace(snapshot, ping_at=now + PING_RETRY), ()


_TRANSITIONS: Final[Mapping[tuple[State, type[Input]], Callable[[_Snapshot, Input, float], _Next]]] = {
    (State.AVAILABLE, RequestFailed): _suspect,
    (State.AVAILABLE, TrafficReceived): _receive_traffic,
    (State.AVAILABLE, PingFinished): _conclude_ping,
    (State.AVAILABLE, Tick): _ping_if_due,
    (State.SUSPECTED, TrafficReceived): _receive_traffic,
    (State.SUSPECTED, CheckFinished): _conclude_check,
    (State.SUSPECTED, PingFinished): _conclude_ping,
    (State.SUSPECTED, Tick): _ping_if_due,
    (State.UNAVAILABLE, RequestAnswered): _check_now,
    (State.UNAVAILABLE, TrafficReceived): _check_now,
    (State.UNAVAILABLE, CheckFinished): _conclude_recovery_check,
    (State.UNAVAILABLE, PingFinished): _ping_later,
    (State.UNAVAILABLE, Tick): _check_again,
}
