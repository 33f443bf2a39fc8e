"""What changes while a node runs, as those see it who were given it once: each question is answered by what
holds then.

Whoever goes through all of it goes through one state of it, whatever happens meanwhile.
"""

from collections.abc import Callable, Collection, ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import TypeVar

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class LiveCollection(Collection[T]):
    """`now` gives what holds at the moment; what it has given is not changed any more."""

    def __init__(self, now: Callable[[], Collection[T]]) -> None:
        self._now = now

    def __contains__(self, one: object) -> bool:
        return one in self._now()

    def __iter__(self) -> Iterator[T]:
        return iter(self._now())

    def __len__(self) -> int:
        return len(self._now())


class LiveMapping(Mapping[K, V]):
    """`now` gives what holds at the moment; what it has given is not changed any more."""

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

    # Those that are inherited would look up each key again when its turn comes, and might not find it.

    def keys(self) -> KeysView[K]:
        return self._now().keys()

    def values(self) -> ValuesView[V]:
        return self._now().values()

    def items(self) -> ItemsView[K, V]:
        return self._now().items()
