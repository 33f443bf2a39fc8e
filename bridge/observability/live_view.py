"""Read-only views on collections that are replaced while the node runs: each access sees the current
collection.

An iteration sees one state throughout, whatever changes meanwhile.
"""

from collections.abc import Callable, Collection, ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class LiveCollection(Collection[T]):
    """`now` returns the current collection, which is never modified."""

    def __init__(self, now: Callable[[], Collection[T]]) -> None:
        self._now = now

    def __contains__(self, one: object) -> bool:
        return one in self._now()

    def __iter__(self) -> Iterator[T]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


class LiveMapping(Mapping[K, V]):
    """`now` returns the current mapping, which is never modified."""

    def __init__(self, now: Callable[[], Mapping[K, V]]) -> None:
        self._now = now

    def __getitem__(self, key: K) -> V:
        return self._now()[key]

    def __contains__(self, key: object) -> bool:
        return key in self._now()

    def __iter__(self) -> Iterator[K]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())

    # The inherited ones would look up each key again during the iteration, and might not find it.

    def keys(self) -> KeysView[K]:
        return self._now().keys()

    def values(self) -> ValuesView[V]:
        return self._now().values()

    def items(self) -> ItemsView[K, V]:
        return self._now().items()
