"""When the private Postgres is started, and started again: a machine that is told what happened, and when."""

from enum import StrEnum

FIRST_DELAY = 0.2
LONGEST_DELAY = 10.0
LONG_ENOUGH = (
    30.0  # seconds; who ran that long has not failed in a row, and is restarted without having to wait
)


class State(StrEnum):
    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    RESTARTING = "restarting"


class Input(StrEnum):
    START = "start"  # the node wants a Postgres
    READY = "ready"  # it accepts connections
    LOST = "lost"  # it ended, or could not be started
    DUE = "due"  # the deadline has come
    STOP = "stop"  # the node wants none any more


class Effect(StrEnum):
    LAUNCH = "launch"
    WAIT = "wait"  # until deadline()
    TERMINATE = "terminate"


TRANSITIONS: dict[tuple[State, Input], tuple[State, tuple[Effect, ...]]] = {
    (State.STOPPED, Input.START): (State.STARTING, (Effect.LAUNCH,)),
    (State.STARTING, Input.READY): (State.RUNNING, ()),
    # Who cannot start at all has a reason that a person must see; trying again would hide it.
    (State.STARTING, Input.LOST): (State.STOPPED, (Effect.TERMINATE,)),
    (State.STARTING, Input.STOP): (State.STOPPED, (Effect.TERMINATE,)),
    (State.RUNNING, Input.LOST): (State.RESTARTING, (Effect.WAIT,)),
    (State.RUNNING, Input.STOP): (State.STOPPED, (Effect.TERMINATE,)),
    (State.RESTARTING, Input.DUE): (State.RESTARTING, (Effect.LAUNCH,)),
    (State.RESTARTING, Input.READY): (State.RUNNING, ()),
    (State.RESTARTING, Input.LOST): (State.RESTARTING, (Effect.WAIT,)),
    (State.RESTARTING, Input.STOP): (State.STOPPED, (Effect.TERMINATE,)),
}


class Supervision:
    def __init__(self) -> None:
        self.state = State.STOPPED
        self.restarts = 0
        self.failures = 0
        self._ready_since: float | None = None
        self._deadline: float | None = None

    def receive(self, happened: Input, now: float) -> tuple[Effect, ...]:
        """What to do. An input that the table does not have for the state comes too late: nothing."""
        before = self.state
        self.state, effects = TRANSITIONS.get((before, happened), (before, ()))
        if self.state is State.RUNNING and before is not State.RUNNING:
            self._ready_since = now
            self.restarts += before is State.RESTARTING
        if Effect.LAUNCH in effects or self.state is State.STOPPED:
            self._deadline = None
        if Effect.WAIT in effects:
            if self._ready_since is not None and now - self._ready_since >= LONG_ENOUGH:
                self.failures = 0
            self._ready_since = None
            self._deadline = now + min(FIRST_DELAY * 2**self.failures, LONGEST_DELAY)
            self.failures += 1
        if self.state is State.STOPPED:
            self.failures = 0
            self._ready_since = None
        return effects

    def deadline(self) -> float | None:
        return self._deadline
