"""How often people are shown that something goes on: each time is an event in a room, for ever.

The longer it takes, the less often it is said anew.
"""

from typing import Final

FIRST: Final = 2.0
LONGEST: Final = 60.0
GROWTH: Final = 1.2


def pause(times_shown: int) -> float:
    """Seconds to wait after it was shown so many times: some forty times in half an hour."""
    assert times_shown > 0, "the first is shown at once"
    # Beyond that it is the longest, and the power would be no float some day.
    return min(LONGEST, FIRST * GROWTH ** min(times_shown - 1, 100))
