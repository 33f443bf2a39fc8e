"""When a transaction is answered that is on disk: at once, or a moment later where the homeserver has much to
say.

It has one transaction under way at a time, and puts into the next one what has happened meanwhile. Each costs
it a request and some writes of its own, whatever is in it, as it costs us a commit. So while events come
thick and fast its answer is held back, and it gathers them; what stands in the transaction is read meanwhile.
"""

from typing import Final

BUSY: Final = 40.0
"""Events a second that come without any being gathered."""
SURPLUS: Final = 10.0
"""How many more there may be before they are, and how many are remembered."""
HELD: Final = 0.05
"""Seconds."""


class AnswerPace:
    """Times are seconds on a clock that never goes back."""

    def __init__(self) -> None:
        self._surplus = 0.0
        self._at = 0.0

    def hold(self, events: int, now: float) -> float:
        """For how long the answer to a transaction with so many events is held back."""
        left = max(0.0, self._surplus - BUSY * max(0.0, now - self._at))
        self._surplus = min(left + events, 2 * SURPLUS)
        self._at = now
        return HELD if self._surplus > SURPLUS else 0.0
