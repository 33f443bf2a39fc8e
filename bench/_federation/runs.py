"""Runs that yield several figures, while a row has one."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

R = TypeVar("R")


class Runs(Generic[R]):
    """The runs of one load on one server. The n-th sample of each row uses the n-th run, which the first row
    to need it makes."""

    def __init__(self) -> None:
        self._made: list[R] = []
        self._read: Counter[str] = Counter()

    async def next(self, row: str, make: Callable[[], Awaitable[R]]) -> R:
        """Return the run for the next sample of this row."""
        number = self._read[row]
        self._read[row] += 1
        if number == len(self._made):
            self._made.append(await make())
        return self._made[number]

    async def only(self, make: Callable[[], Awaitable[R]]) -> R:
        """Return the first run, always."""
        if not self._made:
            self._made.append(await make())
        return self._made[0]
