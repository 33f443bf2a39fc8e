"""What waits to be sent to one server, as far as it is held in memory: the heads of the queues in Postgres.

Each room has a lane of its own, so that a flood in one does not hold up the others; so have the EDUs that
must arrive. A lane holds a piece of its queue and loads the next one when that is nearly used up.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

MOST_HELD: Final = 100
"""How many of a lane are held before the rest is left in Postgres."""
LOAD_BELOW: Final = 50
LOAD: Final = 200
"""How many the shell gives at once: the oldest that are queued. More than can be held and in flight together,
so that there is always something new among them."""
MOST_LANES: Final = 500
"""How many lanes hold something at the same time. Of the others only the name is held until their turn."""
MOST_EPHEMERAL: Final = 500


@dataclass(frozen=True, slots=True)
class PduRef:
    """An event in the queue of one destination. Positions grow from event to event of a room."""

    position: int
    room_id: str


@dataclass(frozen=True, slots=True)
class EduRef:
    """An EDU in the queue. An ephemeral one (typing, receipt, presence) is worth nothing once it is late."""

    position: int
    ephemeral: bool = False


Lane = str | None
"""A room id, or None for the EDUs that must arrive."""


@dataclass(slots=True)
class _Lane:
    held: list[int] = field(default_factory=list)
    # There may be more behind what is held.
    more: bool = False
    loading: bool = False
    # What has been taken and is not back yet, or went for good while a load was under way that may bring it.
    away: set[int] = field(default_factory=set)
    gone: set[int] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        return not (self.held or self.more or self.loading or self.away)


class SendQueue:
    def __init__(self) -> None:
        self._lanes: dict[Lane, _Lane] = {}
        self._ephemeral: list[EduRef] = []

    @property
    def is_empty(self) -> bool:
        """Nothing waits, here or in Postgres, and nothing is in flight that has to arrive."""
        return not self._lanes and not self._ephemeral

    def add(self, pdus: Iterable[PduRef], edus: Iterable[EduRef]) -> tuple[EduRef, ...]:
        """What has been queued. The ephemeral ones that are too many are given back."""
        for pdu in pdus:
            self._put(pdu.room_id, pdu.position)
        for edu in edus:
            if edu.ephemeral:
                self._ephemeral.append(edu)
            else:
                self._put(None, edu.position)
        stale = self._ephemeral[:-MOST_EPHEMERAL]
        del self._ephemeral[: len(stale)]
        return tuple(stale)

    def put_away(self, pdus: Iterable[PduRef], edus: Iterable[EduRef]) -> None:
        """These are in flight although they were not taken from here."""
        for name, position in _places(pdus, edus):
            self._lanes.setdefault(name, _Lane()).away.add(position)

    def expect(self, lane: Lane) -> None:
        """There is something of it in Postgres."""
        self._lanes.setdefault(lane, _Lane()).more = True

    def to_load(self) -> list[Lane]:
        """The lanes that need their next piece now. The one that was loaded last comes last in its turn."""
        wanted = []
        free = MOST_LANES - self._holding()
        for name, lane in list(self._lanes.items()):
            if not lane.more or lane.loading or len(lane.held) >= LOAD_BELOW:
                continue
            if not lane.held:
                if free <= 0:
                    continue
                free -= 1
            lane.loading, lane.more = True, False
            self._lanes[name] = self._lanes.pop(name)
            wanted.append(name)
        return wanted

    def is_loading(self) -> bool:
        return any(lane.loading for lane in self._lanes.values())

    def loaded(self, name: Lane, positions: Sequence[int]) -> None:
        """The oldest of a lane's queue, `LOAD` of them or all there are."""
        lane = self._lanes.get(name)
        if lane is None or not lane.loading:
            return  # forgotten since it was asked for
        known = lane.away.union(lane.held, lane.gone)
        lane.held = sorted([*lane.held, *(one for one in set(positions) if one not in known)])
        lane.loading = False
        lane.gone.clear()
        # Whatever was queued while the load was under way may have come too late for it.
        lane.more = lane.more or len(positions) >= LOAD
        self._tidy(name)

    def waiting(self) -> Mapping[str, int]:
        """How many of each room are held and could be sent."""
        return {name: len(lane.held) for name, lane in self._lanes.items() if name is not None and lane.held}

    def is_complete(self) -> bool:
        """Nothing waits in Postgres that is not held here."""
        return not any(lane.more or lane.loading for lane in self._lanes.values())

    def take_pdus(self, most: int, allowances: Mapping[str, int]) -> tuple[PduRef, ...]:
        """The oldest of those rooms that have an allowance, each no more than it."""
        streams = [
            [(position, name) for position in self._lanes[name].held[:allowance]]
            for name, allowance in allowances.items()
        ]
        taken = [PduRef(position, name) for position, name in islice(heapq.merge(*streams), most)]
        for pdu in taken:
            lane = self._lanes[pdu.room_id]
            lane.held.remove(pdu.position)
            lane.away.add(pdu.position)
        return tuple(taken)

    def take_edus(self, most: int) -> tuple[EduRef, ...]:
        """Those that must arrive before those that need not."""
        taken: list[EduRef] = []
        lane = self._lanes.get(None)
        if lane is not None:
            taken = [EduRef(position) for position in lane.held[:most]]
            del lane.held[: len(taken)]
            lane.away.update(edu.position for edu in taken)
        ephemeral = self._ephemeral[: most - len(taken)]
        del self._ephemeral[: len(ephemeral)]
        return (*taken, *ephemeral)

    def give_back(self, pdus: Iterable[PduRef], edus: Sequence[EduRef]) -> None:
        """What was taken waits again, in its place."""
        for name, position in _places(pdus, edus):
            lane = self._lanes[name]
            lane.away.discard(position)
            lane.held = sorted([*lane.held, position])
        self._ephemeral[:0] = [edu for edu in edus if edu.ephemeral]

    def forget(self, pdus: Iterable[PduRef], edus: Iterable[EduRef]) -> None:
        """What was taken will never wait again."""
        for name, position in _places(pdus, edus):
            lane = self._lanes[name]
            lane.away.discard(position)
            if lane.loading:
                lane.gone.add(position)
            self._tidy(name)

    def clear(self) -> tuple[EduRef, ...]:
        """Hold nothing any more; it is all in Postgres, but for the ephemeral EDUs, which are given back."""
        stale = tuple(self._ephemeral)
        self._lanes.clear()
        self._ephemeral.clear()
        return stale

    def _put(self, name: Lane, position: int) -> None:
        lane = self._lanes.setdefault(name, _Lane())
        is_full = len(lane.held) >= MOST_HELD or (not lane.held and self._holding() >= MOST_LANES)
        if lane.more or lane.loading or is_full:
            lane.more = True
        elif position not in lane.away and position not in lane.held:
            lane.held.append(position)

    def _holding(self) -> int:
        if len(self._lanes) < MOST_LANES:
            return 0  # too few to matter
        return sum(1 for lane in self._lanes.values() if lane.held or lane.loading)

    def _tidy(self, name: Lane) -> None:
        lane = self._lanes.get(name)
        if lane is not None and lane.is_empty:
            del self._lanes[name]


def _places(pdus: Iterable[PduRef], edus: Iterable[EduRef]) -> list[tuple[Lane, int]]:
    return [
        *((pdu.room_id, pdu.position) for pdu in pdus),
        *((None, edu.position) for edu in edus if not edu.ephemeral),
    ]
