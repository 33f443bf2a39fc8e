"""Several figures are read off one run, and a row has one figure."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

R = TypeVar("R")


class Runs(Generic[R]):
    """The runs of one load on one server. The n-th sample of each row is read off the n-th run, whichever
    row comes first and makes it."""

    def __init__(self) -> None:
        self._made: list[R] = []
        self._read: Counter[str] = Counter()

    async def next(self, row: str, make: Callable[[], Awaitable[R]]) -> R:
        """The run that the next sample of this row is read off."""
        number = self._read[row]
        self._read[row] += 1
        if number == len(self._made):
            self._made.append(await make())
        return self._made[number]

    async def only(self, make: Callable[[], Awaitable[R]]) -> R:
        """The first run, whoever asks and however often."""
        if not self._made:
            self._made.append(await make())
        return self._made[0]
