"""The newest part of a stream, as its readers have it in common: each would ask the database for the same."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
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
        self._entries: deque[Entry[T]] = deque()
        self.begin = 0
        """For a reader who has read until there nothing is missing here."""
        self.end = 0
        """So far has been read."""

    def after(self, position: int, limit: int) -> list[T]:
        """What follows a position that is covered."""
        found: list[T] = []
        # Readers are near the end, so that one looks from there.
        for entry in reversed(self._entries):
            if entry.position <= position:
                break
            found.append(entry.value)
        found.reverse()
        return found[:limit]

    def begin_at(self, position: int) -> None:
        """Nothing until there is of interest any more."""
        if position > self.begin:
            self.begin = position
            self.end = max(self.end, position)
            while self._entries and self._entries[0].position <= position:
                self._weight -= self._entries.popleft().weight

    def add(self, entries: Iterable[Entry[T]], upto: int) -> None:
        """All that there is between the end and `upto`."""
        for entry in entries:
            assert self.end < entry.position <= upto, "it follows what has been read"
            self._entries.append(entry)
            self._weight += entry.weight
            self.end = entry.position
        self.end = max(self.end, upto)
        while self._weight > self._most:
            self.begin_at(self._entries[0].position)
