"""The shapes of letters."""

import string

import pytest

from bridge.avatar_letters import BASE, TOP, UNKNOWN, Arc, is_known, shape

LETTERS = string.ascii_letters + string.digits + UNKNOWN


@pytest.mark.parametrize("letter", LETTERS)
def test_every_letter_stands_on_the_grid(letter: str) -> None:
    """Capitals and digits between top and base, but for the tail of the Q; small ones have tails too."""
    points = [point for stroke in shape(letter) for point in stroke]
    assert all(len(stroke) > 1 for stroke in shape(letter))
    across, down = [x for x, _ in points], [y for _, y in points]
    assert 0 <= max(across) - min(across) <= 15
    assert min(down) >= TOP
    lowest = BASE + 1 if letter == "Q" else BASE + 4.1 if letter in "gjpqy" else BASE
    assert BASE - 0.1 <= max(down) <= lowest


def test_no_two_letters_look_the_same() -> None:
    """But for the large I and the small l, which differ in nothing."""
    assert len({shape(letter) for letter in LETTERS}) == len(LETTERS) - 1
    assert shape("I") == shape("l")


def test_others_are_not_known() -> None:
    """Whoever draws asks before."""
    assert all(map(is_known, LETTERS))
    assert not any(map(is_known, "Äß中 \0"))


def test_an_arc_goes_from_one_angle_to_the_other() -> None:
    """Clockwise when angles grow, and the other way round, in small steps."""
    down = list(Arc(1, 2, 10, 5, 0, 90).points())
    assert (down[0], down[-1]) == ((11, 2), (1, 7))
    assert list(Arc(1, 2, 10, 5, 90, 0).points()) == down[::-1]
    assert len(down) == 13
