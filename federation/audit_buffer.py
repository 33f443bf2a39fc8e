"""What is to be written into the audit a moment later: no more than fits, and what does not is counted."""

from collections.abc import Hashable
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from federation.audit import Direction, Ending, Entry
from federation.peer_limits import Buckets, Rate

MOST: Final = 10_000
OF_STRANGERS: Final = Rate(10, 100)
"""Rows for those who have not shown who they are: they must not be able to fill the disk."""

_COUNTED: Final = frozenset({Ending.UNAUTHENTICATED, Ending.RATE_LIMITED})
_ANYBODY: Final = "anybody"


@dataclass(slots=True)
class _Noted:
    entry: Entry
    times: int = 1


@dataclass(frozen=True, slots=True)
class Batch:
    """What was noted, in its order, and how much was lost until when."""

    entries: tuple[Entry, ...]
    lost: int
    lost_at_ms: int

    def to_be_written(self) -> list[Entry]:
        """That something was lost is a row too."""
        if not self.lost:
            return list(self.entries)
        said = f"{self.lost} acts were too many to be kept"
        return [
            *self.entries,
            Entry(self.lost_at_ms, None, Direction.IN, "audit", Ending.LOST, detail=said),
        ]


class AuditBuffer:
    """`now` is seconds of a clock that never runs backwards.

    The same refusal over and over is one row with a number.
    """

    def __init__(self, most: int = MOST, of_strangers: Rate = OF_STRANGERS) -> None:
        self._most = most
        self._of_strangers = of_strangers
        self._allowance: Buckets[str] = Buckets(1)
        self._numbers = count()
        self._noted: dict[Hashable, _Noted] = {}
        self._lost = 0
        self._lost_at_ms = 0
        self.lost = 0
        """Since the beginning."""

    def note(self, entry: Entry, now: float) -> None:
        repeated = entry.peer is None or entry.ending in _COUNTED
        key: Hashable = next(self._numbers)
        if repeated:
            key = entry.peer, entry.direction, entry.act, entry.ending, entry.detail
            known = self._noted.get(key)
            if known is not None:
                known.times += 1
                return
        is_stranger = entry.peer is None
        if len(self._noted) >= self._most or (
            is_stranger and self._allowance.take(_ANYBODY, self._of_strangers, now) is not None
        ):
            self._lose(entry)
            return
        self._noted[key] = _Noted(entry)

    def take(self) -> Batch:
        """All that is noted; it is forgotten here."""
        batch = Batch(tuple(map(_counted, self._noted.values())), self._lost, self._lost_at_ms)
        self._noted = {}
        self._lost = 0
        return batch

    def give_back(self, batch: Batch) -> None:
        """It could not be written. It comes before what was noted since."""
        since = self._noted
        self._noted = {}
        self._lost += batch.lost
        self._lost_at_ms = max(self._lost_at_ms, batch.lost_at_ms)
        for entry in batch.entries:
            self._noted[next(self._numbers)] = _Noted(entry)
        for key, noted in since.items():
            if len(self._noted) < self._most:
                self._noted[key] = noted
            else:
                self._lose(noted.entry, noted.times)

    def _lose(self, entry: Entry, times: int = 1) -> None:
        self._lost += times
        self.lost += times
        self._lost_at_ms = entry.at_ms

    def __len__(self) -> int:
        return len(self._noted)


def _counted(noted: _Noted) -> Entry:
    if noted.times == 1:
        return noted.entry
    detail = f"{noted.entry.detail} ({noted.times} times)" if noted.entry.detail else f"{noted.times} times"
    return replace(noted.entry, detail=detail)
