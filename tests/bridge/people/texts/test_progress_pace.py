"""The intervals between progress updates."""

from itertools import accumulate

from bridge.people.texts.task_texts import FIRST, LONGEST, pause


def test_the_intervals_grow() -> None:
    """From two seconds to a minute."""
    pauses = [pause(times) for times in range(1, 2_000)]
    assert pauses[0] == FIRST
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST


def test_half_an_hour_has_about_forty_updates() -> None:
    """An hour has about seventy. The room stores all of them."""
    times = list(accumulate(pause(number) for number in range(1, 200)))
    assert 35 < sum(at < 1_800 for at in times) < 50
    assert 65 < sum(at < 3_600 for at in times) < 80
