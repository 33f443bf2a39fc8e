"""The state machine that decides when Postgres is restarted: every state with every input."""

import pytest

from storage.embedded.server import (
    FIRST_RESTART_DELAY,
    MAX_RESTART_DELAY,
    STABLE_AFTER,
    TRANSITIONS,
    Effect,
    Input,
    State,
    Supervision,
)

# The inputs that bring a new state machine into each state.
PATHS = {
    State.STOPPED: [],
    State.STARTING: [Input.START],
    State.RUNNING: [Input.START, Input.READY],
    State.RESTARTING: [Input.START, Input.READY, Input.LOST],
}


def machine_in(state: State, now: float = 0.0) -> Supervision:
    machine = Supervision()
    for happened in PATHS[state]:
        machine.receive(happened, now)
    assert machine.state is state
    return machine


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("happened", Input)
def test_every_state_with_every_input(state: State, happened: Input) -> None:
    """The transition table decides; an input without transition changes nothing."""
    machine = machine_in(state)
    deadline = machine.deadline()
    effects = machine.receive(happened, 1.0)
    expected = TRANSITIONS.get((state, happened))
    if expected is None:
        assert (machine.state, effects, machine.deadline()) == (state, (), deadline)
    else:
        assert (machine.state, effects) == expected
    assert (machine.deadline() is not None) is (Effect.WAIT in effects or (deadline is not None and not effects))


@pytest.mark.parametrize("state", [state for state in State if state is not State.STOPPED])
def test_every_state_can_be_stopped(state: State) -> None:
    """Stopping ends the process and every wait."""
    machine = machine_in(state)
    assert machine.receive(Input.STOP, 1.0) == (Effect.TERMINATE,)
    assert (machine.state, machine.deadline()) == (State.STOPPED, None)


def test_a_failed_start_is_not_retried() -> None:
    """The operator must see the reason."""
    machine = machine_in(State.STARTING)
    assert machine.receive(Input.LOST, 1.0) == (Effect.TERMINATE,)
    assert machine.state is State.STOPPED


def test_the_delays_double_up_to_a_limit() -> None:
    """0.2 s, doubled after each failure, at most 10 s."""
    machine = machine_in(State.RESTARTING, now=100.0)
    waits = []
    for _ in range(9):
        deadline = machine.deadline()
        assert deadline is not None
        waits.append(round(deadline - 100.0, 6))
        assert machine.receive(Input.DUE, deadline) == (Effect.LAUNCH,)
        assert machine.deadline() is None
        assert machine.receive(Input.LOST, 100.0) == (Effect.WAIT,)
    assert waits == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0, 10.0]
    assert (waits[0], waits[-1]) == (FIRST_RESTART_DELAY, MAX_RESTART_DELAY)


def test_a_short_run_does_not_reset_the_delay() -> None:
    """A Postgres that starts and dies at once is failing."""
    machine = machine_in(State.RUNNING)
    waits = []
    for _ in range(3):
        machine.receive(Input.LOST, 10.0)
        waits.append((machine.deadline() or 0.0) - 10.0)
        machine.receive(Input.DUE, 10.0)
        machine.receive(Input.READY, 10.0)
    assert waits == pytest.approx([0.2, 0.4, 0.8])


def test_a_long_run_resets_the_delay() -> None:
    """A later failure has another cause."""
    machine = machine_in(State.RESTARTING)
    for _ in range(5):
        machine.receive(Input.DUE, 0.0)
        machine.receive(Input.LOST, 0.0)
    machine.receive(Input.DUE, 0.0)
    machine.receive(Input.READY, 0.0)
    machine.receive(Input.LOST, STABLE_AFTER)
    assert machine.deadline() == STABLE_AFTER + FIRST_RESTART_DELAY
    assert machine.failures == 1


def test_restarts_are_counted() -> None:
    """Without the first start and failed attempts; stopping does not reset the counter."""
    machine = machine_in(State.RESTARTING)
    for happened in (Input.DUE, Input.LOST, Input.DUE, Input.READY):
        machine.receive(happened, 0.0)
    assert machine.restarts == 1
    machine.receive(Input.STOP, 0.0)
    machine.receive(Input.START, 0.0)
    machine.receive(Input.READY, 0.0)
    assert machine.restarts == 1


def test_stopping_resets_the_failures() -> None:
    """The next start of the node begins with a short delay again."""
    machine = machine_in(State.RESTARTING)
    machine.receive(Input.STOP, 0.0)
    assert machine.failures == 0
