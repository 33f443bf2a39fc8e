"""The newest part of a stream, as its readers have it in common: each would ask the database for the same."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """`weight` is about what it takes in memory."""

    position: int
    weight: int
    value: T


class StreamTail(Generic[T]):
    """Everything that there is behind one position, up to another one. Both only move on."""

    def __init__(self, most: int) -> None:
        """`most` is how much may be remembered, by weight."""
        self._most = most
        self._weight = 0
        self._begin = 0
        self._end = 0
        self._entries: deque[Entry[T]] = deque()

    @property
    def end(self) -> int:
        """So far has been read."""
        return self._end

    def covers(self, after: int) -> bool:
        """Whether nothing is missing here for a reader who has read until there."""
        return after >= self._begin

    def after(self, position: int, limit: int) -> list[T]:
        """What follows a position that is covered."""
        # Readers are near the end, so that one looks from there.
        behind = sum(1 for _ in takewhile(lambda entry: entry.position > position, reversed(self._entries)))
        first = len(self._entries) - behind
        return [entry.value for entry in islice(self._entries, first, first + limit)]

    def begin_at(self, position: int) -> None:
        """Nothing until there is of interest any more."""
        if position > self._begin:
            self._begin = position
            self._end = max(self._end, position)
            while self._entries and self._entries[0].position <= position:
                self._weight -= self._entries.popleft().weight

    def add(self, entries: Iterable[Entry[T]], upto: int) -> None:
        """All that there is between the end and `upto`."""
        for entry in entries:
            assert self._end < entry.position <= upto, "it follows what has been read"
            self._entries.append(entry)
            self._weight += entry.weight
            self._end = entry.position
        self._end = max(self._end, upto)
        while self._weight > self._most:
            self.begin_at(self._entries[0].position)
