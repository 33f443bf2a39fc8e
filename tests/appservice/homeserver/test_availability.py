"""Whether the homeserver is there, as a machine decides it."""

from itertools import pairwise
from typing import get_args

import pytest

from appservice.homeserver.availability import (
    _TRANSITIONS,
    FIRST_PAUSE,
    HEARD_WITHIN,
    LONGEST_PAUSE,
    PING_AGAIN,
    QUIET,
    Answered,
    Heard,
    HomeserverWatch,
    Input,
    Look,
    Looked,
    Lost,
    Opened,
    Ping,
    Pinged,
    Reached,
    Shut,
    State,
    Tick,
    Unreached,
)

BEGAN = 100.0
INPUTS: dict[type[Input], Input] = {
    Lost: Lost(),
    Answered: Answered(),
    Heard: Heard(),
    Looked: Looked(None),
    Pinged: Pinged(None),
    Tick: Tick(),
}


def _watch(state: State) -> HomeserverWatch:
    watch = HomeserverWatch(BEGAN)
    if state is not State.THERE:
        watch.receive(Lost(), BEGAN)
    if state is State.AWAY:
        watch.receive(Looked("It is gone."), BEGAN)
    assert watch.state is state
    return watch


def test_what_can_happen_is_what_the_table_knows() -> None:
    """Whatever is not in it changes nothing."""
    assert {kind for _, kind in _TRANSITIONS} == set(get_args(Input)) == set(INPUTS)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("kind", list(INPUTS))
def test_every_state_takes_every_input(state: State, kind: type[Input]) -> None:
    """None of them is a mistake, and what is not in the table has no effect."""
    watch = _watch(state)
    before = watch.deadline()
    effects = watch.receive(INPUTS[kind], BEGAN + 1)
    if (state, kind) not in _TRANSITIONS:
        assert (effects, watch.state, watch.deadline()) == ((), state, before)


def test_one_lost_request_lets_nobody_wait() -> None:
    """A homeserver may fail over one request, again and again: it is looked at, and no more than once a
    second."""
    watch = HomeserverWatch(BEGAN)
    assert watch.receive(Lost(), BEGAN) == (Look(),)
    assert watch.receive(Lost(), BEGAN) == ()
    assert watch.state.value == "doubted"
    assert watch.receive(Looked(None), BEGAN + 0.1) == ()
    assert watch.state.value == "there"
    assert watch.receive(Lost(), BEGAN + 0.1 + QUIET / 2) == ()
    assert watch.receive(Lost(), BEGAN + 0.1 + QUIET) == (Look(),)


def test_one_that_is_away_is_looked_for_more_and_more_rarely() -> None:
    """From one second to thirty."""
    watch = _watch(State.AWAY)
    now, looks = BEGAN, []
    for _ in range(15):
        deadline = watch.deadline()
        assert deadline is not None
        now = deadline
        looks.append(now)
        assert watch.receive(Tick(), now) == (Look(),)
        assert watch.deadline() is None
        assert watch.receive(Looked("It is gone."), now) == ()
    pauses = [later - sooner for sooner, later in pairwise([BEGAN, *looks])]
    assert pauses[0] == FIRST_PAUSE
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE


def test_one_that_is_back_is_asked_to_reach_us() -> None:
    """Or it would go on sending only when its own pause ends, which may be minutes."""
    watch = HomeserverWatch(BEGAN)
    watch.receive(Lost(), BEGAN)
    assert watch.receive(Looked("It is gone."), BEGAN + 1) == (Shut("It is gone."),)
    assert watch.receive(Tick(), BEGAN + 2) == (Look(),)
    assert watch.receive(Looked(None), BEGAN + 5) == (Opened(5.0), Ping())
    assert watch.state is State.THERE
    assert watch.receive(Pinged(None), BEGAN + 6) == ()


@pytest.mark.parametrize("sign", [Heard(), Answered()])
def test_a_sign_of_life_is_looked_into_at_once(sign: Input) -> None:
    """Whoever sends us something is there."""
    watch = _watch(State.AWAY)
    assert watch.receive(sign, BEGAN + 0.5) == ()
    assert watch.deadline() == BEGAN + 0.5
    assert watch.receive(Tick(), BEGAN + 0.5) == (Look(),)
    # Somebody is looking already.
    assert watch.receive(sign, BEGAN + 0.6) == ()
    assert watch.deadline() is None


def test_one_that_is_silent_is_asked_to_reach_us() -> None:
    """It answers all that we ask, and may have given up on sending."""
    watch = HomeserverWatch(BEGAN)
    assert watch.deadline() == BEGAN + HEARD_WITHIN
    watch.receive(Heard(), BEGAN + 200)
    assert watch.receive(Tick(), BEGAN + HEARD_WITHIN) == ()
    assert watch.deadline() == BEGAN + 200 + HEARD_WITHIN
    assert watch.receive(Tick(), BEGAN + 200 + HEARD_WITHIN) == (Ping(),)
    assert watch.deadline() is None
    assert watch.receive(Pinged(None), BEGAN + 600) == ()
    assert watch.deadline() == BEGAN + 600 + HEARD_WITHIN


def test_one_that_does_not_reach_us_is_told_of_once() -> None:
    """Until it does, which either a ping shows or whatever else it sends."""
    for sign in (Pinged(None), Heard()):
        watch = HomeserverWatch(BEGAN)
        now = BEGAN + HEARD_WITHIN
        assert watch.receive(Tick(), now) == (Ping(),)
        assert watch.receive(Pinged("It cannot."), now) == (Unreached("It cannot."),)
        assert not watch.is_reached
        assert watch.deadline() == now + PING_AGAIN
        assert watch.receive(Tick(), now + PING_AGAIN) == (Ping(),)
        assert watch.receive(Pinged("It cannot."), now + PING_AGAIN) == ()
        assert watch.receive(sign, now + 2 * PING_AGAIN) == (Reached(),)
        assert watch.is_reached


def test_a_ping_that_ends_while_it_is_away_says_nothing() -> None:
    """It will be asked again when it is back."""
    watch = _watch(State.AWAY)
    assert watch.receive(Pinged("It cannot."), BEGAN + 1) == ()
    assert watch.is_reached
