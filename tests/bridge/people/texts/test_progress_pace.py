"""How often people are shown that something goes on."""

from itertools import accumulate

from bridge.people.texts.task_texts import FIRST, LONGEST, pause


def test_the_longer_it_takes_the_less_often_it_is_said() -> None:
    """From two seconds to a minute, without an end."""
    pauses = [pause(times) for times in range(1, 2_000)]
    assert pauses[0] == FIRST
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST


def test_half_an_hour_is_some_forty_times() -> None:
    """An hour seventy: a room keeps all of them."""
    times = list(accumulate(pause(number) for number in range(1, 200)))
    assert 35 < sum(at < 1_800 for at in times) < 50
    assert 65 < sum(at < 3_600 for at in times) < 80
