"""A set of deadlines that returns the next one. Most of them are moved before they expire.

Moving a deadline later is cheap: the heap keeps the old time, which is corrected when it expires.
"""

import heapq
from collections.abc import Hashable, Iterator
from itertools import count
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Deadlines(Generic[K]):
    def __init__(self) -> None:
        self._at: dict[K, int] = {}
        # Entries are (time, number, key). The time of a key is never later than its deadline, but may be
        # earlier.
        self._heap: list[tuple[int, int, K]] = []
        self._numbers = count()

    def set(self, key: K, at_ms: int) -> None:
        before = self._at.get(key)
        self._at[key] = at_ms
        if before is None or at_ms < before:
            self._push(key, at_ms)

    def remove(self, key: K) -> None:
        self._at.pop(key, None)

    def next(self) -> int | None:
        """The earliest deadline; None if there is none."""
        while self._heap:
            at_ms, _, key = self._heap[0]
            true = self._at.get(key)
            if true == at_ms:
                return at_ms
            heapq.heappop(self._heap)
            if true is not None and true > at_ms:
                self._push(key, true)
        return None

    def take_due(self, now_ms: int) -> list[K]:
        """Remove and return the keys whose deadline has passed, the earliest first."""
        due: list[K] = []
        while (at_ms := self.next()) is not None and at_ms <= now_ms:
            _, _, key = heapq.heappop(self._heap)
            del self._at[key]
            due.append(key)
        return due

    def _push(self, key: K, at_ms: int) -> None:
        heapq.heappush(self._heap, (at_ms, next(self._numbers), key))
        if len(self._heap) > 2 * len(self._at) + 64:
            # Outdated entries must not outnumber the current ones.
            self._heap = [(at, next(self._numbers), key) for key, at in self._at.items()]
            heapq.heapify(self._heap)

    def __contains__(self, key: K) -> bool:
        return key in self._at

    def __iter__(self) -> Iterator[K]:
        return iter(tuple(self._at))

    def __len__(self) -> int:
        return len(self._at)
