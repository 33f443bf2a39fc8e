"""A cache bounded by the weight of its values: events and states differ in size by a factor of a thousand."""

from typing import TypeVar

from cachetools import LRUCache

K = TypeVar("K")
V = TypeVar("V")


class WeightedCache(LRUCache[K, V]):
    """Made with the function that weighs a value. A value heavier than the whole cache is not kept and evicts
    nothing, where `LRUCache` raises ValueError."""

    def __setitem__(self, key: K, value: V) -> None:
        if self.getsizeof(value) > self.maxsize:
            self.pop(key, None)
        else:
            super().__setitem__(key, value)
