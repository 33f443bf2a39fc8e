"""Which rooms of peers are still to be joined, and when it is tried next.

"nodes join each other's rooms on first contact in either direction, and again after a loss". Whoever does not
answer is asked after ever longer pauses; a sign of life of the peer makes it at once.

A machine. Times are milliseconds of any clock.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

SHORTEST_MS: Final = 200
"""Between two attempts, whatever the peer does."""

K = TypeVar("K")


@dataclass(slots=True)
class _Wanted:
    at: int
    failures: int = 0
    tried_at: int | None = None
    is_under_way: bool = False


class Contacts(Generic[K]):
    """`wanted` are rooms by the peers to whom they belong; all of them are due at once. A peer is asked for
    one room after the other."""

    def __init__(self, wanted: Mapping[str, Iterable[K]], now: int, *, retry: int, longest: int) -> None:
        self._retry = retry
        self._shortest = min(retry, SHORTEST_MS)
        self._longest = longest
        self._wanted = {peer: {key: _Wanted(now) for key in keys} for peer, keys in wanted.items()}

    def due(self, now: int) -> list[tuple[str, K]]:
        """To be tried now, each told once; `done` or `failed` says how it ended."""
        due: list[tuple[str, K]] = []
        for peer, keys in self._wanted.items():
            if any(one.is_under_way for one in keys.values()):
                continue
            first = next((key for key, one in keys.items() if one.at <= now), None)
            if first is not None:
                keys[first].is_under_way = True
                keys[first].tried_at = now
                due.append((peer, first))
        return due

    def deadline(self) -> int | None:
        """When there is something to do next, unless something is said before. None: nothing is wanted."""
        return min(
            (
                one.at
                for keys in self._wanted.values()
                if not any(other.is_under_way for other in keys.values())
                for one in keys.values()
            ),
            default=None,
        )

    def want(self, peer: str, keys: Iterable[K], now: int) -> None:
        """These and no others are wanted of the peer from now on, all of them at once."""
        self._wanted[peer] = {key: _Wanted(now) for key in keys}

    def forget(self, peer: str) -> None:
        """Nothing is wanted of it any more, whatever becomes of what is under way."""
        self._wanted.pop(peer, None)

    def done(self, peer: str, key: K) -> None:
        self._wanted.get(peer, {}).pop(key, None)

    def failed(self, peer: str, key: K, now: int) -> None:
        one = self._wanted.get(peer, {}).get(key)
        if one is None:
            return  # somebody else has seen to it meanwhile, or nobody wants it any more
        one.is_under_way = False
        one.at = now + min(self._retry * 2 ** min(one.failures, 30), self._longest)
        one.failures += 1

    def met(self, peer: str, now: int) -> None:
        """The peer has given a sign of life: what is wanted of it is tried at once, unless it just was."""
        for one in self._wanted.get(peer, {}).values():
            tried = now if one.tried_at is None else max(now, one.tried_at + self._shortest)
            one.at = min(one.at, tried)

    def lost(self, peer: str, key: K, now: int) -> None:
        """This node is no longer in that room."""
        keys = self._wanted.get(peer)
        if keys is not None and key not in keys:
            keys[key] = _Wanted(now + self._retry, failures=1)

    def has(self, peer: str, key: K) -> bool:
        """Whether it is still wanted."""
        return key in self._wanted.get(peer, {})
