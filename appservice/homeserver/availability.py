"""Whether the homeserver is there: when it is looked for, when the others wait, and when it is asked to reach
us.

A machine: `receive(input, now) -> effects`, `deadline()`. One request that got no answer says little: a look
is taken first, and only what it finds lets the others wait. Meanwhile they go on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, TypeAlias

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0
SLOWER: Final = 1.5
"""Seconds between two looks at one that is away. A homeserver is back within half a minute most often."""
QUIET: Final = 1.0
"""Seconds after a look that found it well in which no other is taken: one request may fail for ever."""
HEARD_WITHIN: Final = 300.0
"""Seconds in which it has sent us nothing, after which it is asked to reach us. One that gave up on us would
be silent for long; asked, it sends at once what it has kept."""
PING_AGAIN: Final = 30.0
"""Seconds, while it does not reach us."""


class State(Enum):
    THERE = "there"
    DOUBTED = "doubted"
    AWAY = "away"


# ---- what happens -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lost:
    """Somebody has asked it for something, and got no answer."""


@dataclass(frozen=True, slots=True)
class Answered:
    """Somebody has asked it, and got an answer."""


@dataclass(frozen=True, slots=True)
class Heard:
    """It has sent us something."""


@dataclass(frozen=True, slots=True)
class Looked:
    """`wrong` is a sentence of what was found; None: it is there, and knows us."""

    wrong: str | None


@dataclass(frozen=True, slots=True)
class Pinged:
    """`wrong`: why it does not reach us."""

    wrong: str | None


@dataclass(frozen=True, slots=True)
class Tick:
    """The deadline has come."""


Input: TypeAlias = Lost | Answered | Heard | Looked | Pinged | Tick


# ---- what is to be done -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """Ask it who we are, and say what comes of it: `Looked`."""


@dataclass(frozen=True, slots=True)
class Ping:
    """Ask it to reach us, and say what comes of it: `Pinged`."""


@dataclass(frozen=True, slots=True)
class Shut:
    """From now on everybody waits."""

    wrong: str


@dataclass(frozen=True, slots=True)
class Opened:
    """Everybody goes on. `seconds`: how long it was away."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Unreached:
    """It is there, and does not reach us."""

    wrong: str


@dataclass(frozen=True, slots=True)
class Reached:
    """It reaches us again."""


Effect: TypeAlias = Look | Ping | Shut | Opened | Unreached | Reached


@dataclass(frozen=True, slots=True)
class _Known:
    """`since` is when it was lost, `pause` the one before the next look. `look_at` is the deadline of one
    that is away, `ping_at` that of one that is there; None while somebody is about it."""

    state: State
    heard_at: float
    since: float = 0.0
    pause: float = FIRST_PAUSE
    quiet_until: float = 0.0
    look_at: float | None = None
    ping_at: float | None = None
    is_unreached: bool = False


_Next: TypeAlias = tuple[_Known, tuple[Effect, ...]]


class HomeserverWatch:
    """It is taken for there in the beginning: whoever starts has just looked."""

    def __init__(self, now: float) -> None:
        self._known = _Known(State.THERE, now, ping_at=now + HEARD_WITHIN)

    @property
    def state(self) -> State:
        return self._known.state

    @property
    def is_reached(self) -> bool:
        return not self._known.is_unreached

    def deadline(self) -> float | None:
        """When a `Tick` is due."""
        return self._known.look_at if self._known.state is State.AWAY else self._known.ping_at

    def receive(self, happened: Input, now: float) -> tuple[Effect, ...]:
        act = _TRANSITIONS.get((self._known.state, type(happened)))
        if act is None:
            return ()
        self._known, effects = act(self._known, happened, now)
        return effects


def _doubt(known: _Known, happened: Input, now: float) -> _Next:
    if now < known.quiet_until:
        return known, ()
    return replace(known, state=State.DOUBTED, since=now), (Look(),)


def _hear(known: _Known, happened: Input, now: float) -> _Next:
    effects = (Reached(),) if known.is_unreached else ()
    return replace(known, heard_at=now, is_unreached=False), effects


def _see(known: _Known, happened: Input, now: float) -> _Next:
    """A doubt was looked into."""
    assert isinstance(happened, Looked), "the table says so"
    if happened.wrong is None:
        return replace(known, state=State.THERE, quiet_until=now + QUIET), ()
    away = replace(known, state=State.AWAY, pause=FIRST_PAUSE, look_at=now + FIRST_PAUSE)
    return away, (Shut(happened.wrong),)


def _see_away(known: _Known, happened: Input, now: float) -> _Next:
    assert isinstance(happened, Looked), "the table says so"
    if happened.wrong is not None:
        pause = min(known.pause * SLOWER, LONGEST_PAUSE)
        return replace(known, pause=pause, look_at=now + pause), ()
    there = replace(
        known, state=State.THERE, heard_at=now, quiet_until=now + QUIET, look_at=None, ping_at=None
    )
    # It has given up on us meanwhile, and would send again in some minutes.
    return there, (Opened(now - known.since), Ping())


def _suspect(known: _Known, happened: Input, now: float) -> _Next:
    """It is back, it seems."""
    return (known, ()) if known.look_at is None else (replace(known, look_at=now), ())


def _look_again(known: _Known, happened: Input, now: float) -> _Next:
    return replace(known, look_at=None), (Look(),)


def _be_due(known: _Known, happened: Input, now: float) -> _Next:
    if known.ping_at is None:
        return known, ()
    due = known.heard_at + HEARD_WITHIN
    if known.is_unreached or now >= due:
        return replace(known, ping_at=None), (Ping(),)
    return replace(known, ping_at=due), ()


def _be_reached(known: _Known, happened: Input, now: float) -> _Next:
    assert isinstance(happened, Pinged), "the table says so"
    if happened.wrong is None:
        reached = replace(known, heard_at=now, ping_at=now + HEARD_WITHIN, is_unreached=False)
        return reached, (Reached(),) if known.is_unreached else ()
    unreached = replace(known, ping_at=now + PING_AGAIN, is_unreached=True)
    return unreached, () if known.is_unreached else (Unreached(happened.wrong),)


def _ping_later(known: _Known, happened: Input, now: float) -> _Next:
    """It went away while it was asked to reach us."""
    return replace(known, ping_at=now + PING_AGAIN), ()


_TRANSITIONS: Final[Mapping[tuple[State, type[Input]], Callable[[_Known, Input, float], _Next]]] = {
    (State.THERE, Lost): _doubt,
    (State.THERE, Heard): _hear,
    (State.THERE, Pinged): _be_reached,
    (State.THERE, Tick): _be_due,
    (State.DOUBTED, Heard): _hear,
    (State.DOUBTED, Looked): _see,
    (State.DOUBTED, Pinged): _be_reached,
    (State.DOUBTED, Tick): _be_due,
    (State.AWAY, Answered): _suspect,
    (State.AWAY, Heard): _suspect,
    (State.AWAY, Looked): _see_away,
    (State.AWAY, Pinged): _ping_later,
    (State.AWAY, Tick): _look_again,
}
