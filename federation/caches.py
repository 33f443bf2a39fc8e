"""A cache bounded by the weight of its values: the sizes of events and states differ by a factor of a
thousand."""

from typing import TypeVar

from cachetools import LRUCache

K = TypeVar("K")
V = TypeVar("V")


class WeightedCache(LRUCache[K, V]):
    """An LRU cache with a function for the weight of a value. A value heavier than the whole cache is not
    stored and evicts nothing, where `LRUCache` raises ValueError."""

    def __setitem__(self, key: K, value: V) -> None:
        if self.getsizeof(value) > self.maxsize:
            self.pop(key, None)
        else:
            super().__setitem__(key, value)
