"""A dictionary that forgets what was not used for the longest, bounded by the weight of what it holds: events
and states differ in size by a factor of a thousand."""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class WeightedCache(Generic[K, V]):
    def __init__(self, most: int) -> None:
        assert most > 0, "a cache that keeps nothing is none"
        self._most = most
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self.weight = 0

    def get(self, key: K) -> V | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: K, value: V, weight: int) -> None:
        """What weighs more than everything may is not kept, and throws nothing out."""
        self.forget(key)
        if weight > self._most:
            return
        self._entries[key] = (value, weight)
        self.weight += weight
        while self.weight > self._most:
            _, (_, lost) = self._entries.popitem(last=False)
            self.weight -= lost

    def forget(self, key: K) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.weight -= entry[1]

    def __len__(self) -> int:
        return len(self._entries)
