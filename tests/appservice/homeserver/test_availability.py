"""The state machine of the homeserver's availability."""

from itertools import pairwise
from typing import get_args

import pytest

from appservice.homeserver.availability import (
    _TRANSITIONS,
    CHECK_INTERVAL,
    FIRST_PAUSE,
    MAX_PAUSE,
    PING_AFTER_SILENCE,
    PING_RETRY,
    AvailabilityMachine,
    CheckFinished,
    CheckHomeserver,
    Input,
    MarkAvailable,
    MarkUnavailable,
    PingFinished,
    PingHomeserver,
    ReportReachable,
    ReportUnreachable,
    RequestAnswered,
    RequestFailed,
    State,
    Tick,
    TrafficReceived,
)

BEGAN = 100.0
INPUTS: dict[type[Input], Input] = {
    RequestFailed: RequestFailed(),
    RequestAnswered: RequestAnswered(),
    TrafficReceived: TrafficReceived(),
    CheckFinished: CheckFinished(None),
    PingFinished: PingFinished(None),
    Tick: Tick(),
}


def _watch(state: State) -> AvailabilityMachine:
    watch = AvailabilityMachine(BEGAN)
    if state is not State.AVAILABLE:
        watch.receive(RequestFailed(), BEGAN)
    if state is State.UNAVAILABLE:
        watch.receive(CheckFinished("It is gone."), BEGAN)
    assert watch.state is state
    return watch


def test_transition_table_lists_all_effective_inputs() -> None:
    """An input without an entry changes nothing."""
    assert {kind for _, kind in _TRANSITIONS} == set(get_args(Input)) == set(INPUTS)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("kind", list(INPUTS))
def test_every_state_accepts_every_input(state: State, kind: type[Input]) -> None:
    """No input raises, and one without an entry has no effect."""
    watch = _watch(state)
    before = watch.deadline()
    effects = watch.receive(INPUTS[kind], BEGAN + 1)
    if (state, kind) not in _TRANSITIONS:
        assert (effects, watch.state, watch.deadline()) == ((), state, before)


def test_one_failed_request_does_not_block_others() -> None:
    """A homeserver may always fail one particular request: it is checked at most once a second."""
    watch = AvailabilityMachine(BEGAN)
    assert watch.receive(RequestFailed(), BEGAN) == (CheckHomeserver(),)
    assert watch.receive(RequestFailed(), BEGAN) == ()
    assert watch.state.value == "suspected"
    assert watch.receive(CheckFinished(None), BEGAN + 0.1) == ()
    assert watch.state.value == "available"
    assert watch.receive(RequestFailed(), BEGAN + 0.1 + CHECK_INTERVAL / 2) == ()
    assert watch.receive(RequestFailed(), BEGAN + 0.1 + CHECK_INTERVAL) == (CheckHomeserver(),)


def test_checks_back_off() -> None:
    """The pause grows from one second to thirty."""
    watch = _watch(State.UNAVAILABLE)
    now, looks = BEGAN, []
    for _ in range(15):
        deadline = watch.deadline()
        assert deadline is not None
        now = deadline
        looks.append(now)
        assert watch.receive(Tick(), now) == (CheckHomeserver(),)
        assert watch.deadline() is None
        assert watch.receive(CheckFinished("It is gone."), now) == ()
    pauses = [later - sooner for sooner, later in pairwise([BEGAN, *looks])]
    assert pauses[0] == FIRST_PAUSE
    assert pauses == sorted(pauses)
    assert pauses[-1] == MAX_PAUSE


def test_recovery_requests_a_ping() -> None:
    """Otherwise the homeserver would resume only after its own pause of minutes."""
    watch = AvailabilityMachine(BEGAN)
    watch.receive(RequestFailed(), BEGAN)
    assert watch.receive(CheckFinished("It is gone."), BEGAN + 1) == (MarkUnavailable("It is gone."),)
    assert watch.receive(Tick(), BEGAN + 2) == (CheckHomeserver(),)
    assert watch.receive(CheckFinished(None), BEGAN + 5) == (MarkAvailable(5.0), PingHomeserver())
    assert watch.state is State.AVAILABLE
    assert watch.receive(PingFinished(None), BEGAN + 6) == ()


@pytest.mark.parametrize("sign", [TrafficReceived(), RequestAnswered()])
def test_traffic_triggers_a_check(sign: Input) -> None:
    """A homeserver that sends something is available."""
    watch = _watch(State.UNAVAILABLE)
    assert watch.receive(sign, BEGAN + 0.5) == ()
    assert watch.deadline() == BEGAN + 0.5
    assert watch.receive(Tick(), BEGAN + 0.5) == (CheckHomeserver(),)
    # A check is already running.
    assert watch.receive(sign, BEGAN + 0.6) == ()
    assert watch.deadline() is None


def test_silence_requests_a_ping() -> None:
    """A homeserver may respond to requests and still have stopped sending."""
    watch = AvailabilityMachine(BEGAN)
    assert watch.deadline() == BEGAN + PING_AFTER_SILENCE
    watch.receive(TrafficReceived(), BEGAN + 200)
    assert watch.receive(Tick(), BEGAN + PING_AFTER_SILENCE) == ()
    assert watch.deadline() == BEGAN + 200 + PING_AFTER_SILENCE
    assert watch.receive(Tick(), BEGAN + 200 + PING_AFTER_SILENCE) == (PingHomeserver(),)
    assert watch.deadline() is None
    assert watch.receive(PingFinished(None), BEGAN + 600) == ()
    assert watch.deadline() == BEGAN + 600 + PING_AFTER_SILENCE


def test_unreachable_is_reported_once() -> None:
    """Until a ping or any other traffic arrives."""
    for sign in (PingFinished(None), TrafficReceived()):
        watch = AvailabilityMachine(BEGAN)
        now = BEGAN + PING_AFTER_SILENCE
        assert watch.receive(Tick(), now) == (PingHomeserver(),)
        assert watch.receive(PingFinished("It cannot."), now) == (ReportUnreachable("It cannot."),)
        assert not watch.is_reachable
        assert watch.deadline() == now + PING_RETRY
        assert watch.receive(Tick(), now + PING_RETRY) == (PingHomeserver(),)
        assert watch.receive(PingFinished("It cannot."), now + PING_RETRY) == ()
        assert watch.receive(sign, now + 2 * PING_RETRY) == (ReportReachable(),)
        assert watch.is_reachable


def test_ping_result_while_unavailable_is_ignored() -> None:
    """Another ping follows the recovery."""
    watch = _watch(State.UNAVAILABLE)
    assert watch.receive(PingFinished("It cannot."), BEGAN + 1) == ()
    assert watch.is_reachable
