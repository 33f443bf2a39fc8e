"""The part of one server's queue that is held in memory: the oldest items of each room in Postgres.

Each room has a lane of its own, so that many events in one room do not delay the others; the EDUs that
must be delivered have another one. A lane holds a part of its queue and loads the next part when few items
are left.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

MAX_HELD: Final = 100
"""How many items of a lane are held; more are left in Postgres."""
LOAD_BELOW: Final = 50
LOAD: Final = 200
"""How many items one load returns, the oldest first. More than can be held and in flight together, so that
there are always new ones among them."""
MAX_LANES: Final = 500
"""How many lanes hold items at the same time. Of the others only the name is held until a lane is free."""
MAX_EPHEMERAL: Final = 500


@dataclass(frozen=True, slots=True)
class PduRef:
    """An event in the queue of one destination. Positions increase from event to event of a room."""

    position: int
    room_id: str


@dataclass(frozen=True, slots=True)
class EduRef:
    """An EDU in the queue. An ephemeral one (typing, receipt, presence) is in memory only and may be
    lost."""

    position: int
    ephemeral: bool = False


Lane = str | None
"""A room id, or None for the EDUs that must be delivered."""


@dataclass(slots=True)
class _Lane:
    held: list[int] = field(default_factory=list)
    # There may be more items in Postgres.
    more: bool = False
    loading: bool = False
    # Items that were taken and not returned; items that were removed during a load whose result may
    # contain them.
    in_flight: set[int] = field(default_factory=set)
    removed: set[int] = field(default_factory=set)

    @property
    def is_empty(self) -> bool:
        return not (self.held or self.more or self.loading or self.in_flight)


class SendQueue:
    def __init__(self) -> None:
        self._lanes: dict[Lane, _Lane] = {}
        self._ephemeral: list[EduRef] = []

    @property
    def is_empty(self) -> bool:
        """Whether nothing is queued, here or in Postgres, and nothing that must be delivered is in
        flight."""
        return not self._lanes and not self._ephemeral

    def add(self, pdus: Iterable[PduRef], edus: Iterable[EduRef]) -> tuple[EduRef, ...]:
        """Add queued items. Return the ephemeral EDUs that were dropped because there are too many."""
        for pdu in pdus:
            self._put(pdu.room_id, pdu.position)
        for edu in edus:
            if edu.ephemeral:
                self._ephemeral.append(edu)
            else:
                self._put(None, edu.position)
        stale = self._ephemeral[:-MAX_EPHEMERAL]
        del self._ephemeral[: len(stale)]
        return tuple(stale)

    def mark_in_flight(self, pdus: Iterable[PduRef], edus: Iterable[EduRef]) -> None:
        """Record items in flight that were not taken from this queue."""
        for name, position in _positions(pdus, edus):
            self._lanes.setdefault(name, _Lane()).in_flight.add(position)

    def mark_more(self, lane: Lane) -> None:
        """Record that Postgres has items of the lane."""
        self._lanes.setdefault(lane, _Lane()).more = True

    def start_loads(self) -> list[Lane]:
        """Return the lanes that need their next part now, least recently loaded first."""
        wanted = []
        free = MAX_LANES - self._held_lanes()
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
        """Add the result of a load: the oldest `LOAD` items of the lane's queue, or all of them."""
        lane = self._lanes.get(name)
        if lane is None or not lane.loading:
            return  # the queue was cleared since the load began
        known = lane.in_flight.union(lane.held, lane.removed)
        lane.held = sorted([*lane.held, *(at for at in set(positions) if at not in known)])
        lane.loading = False
        lane.removed.clear()
        # Items that were queued during the load may be missing from its result.
        lane.more = lane.more or len(positions) >= LOAD
        self._drop_if_empty(name)

    def waiting(self) -> Mapping[str, int]:
        """Return the number of held events that could be sent, for each room."""
        return {name: len(lane.held) for name, lane in self._lanes.items() if name is not None and lane.held}

    def is_complete(self) -> bool:
        """Whether all queued items are held in memory."""
        return not any(lane.more or lane.loading for lane in self._lanes.values())

    def take_pdus(self, limit: int, allowances: Mapping[str, int]) -> tuple[PduRef, ...]:
        """Take the oldest events of the rooms in `allowances`, at most the allowance of each room."""
        streams = [
            [(position, name) for position in self._lanes[name].held[:allowance]]
            for name, allowance in allowances.items()
        ]
        taken = [PduRef(position, name) for position, name in islice(heapq.merge(*streams), limit)]
        for pdu in taken:
            lane = self._lanes[pdu.room_id]
            lane.held.remove(pdu.position)
            lane.in_flight.add(pdu.position)
        return tuple(taken)

    def take_edus(self, limit: int) -> tuple[EduRef, ...]:
        """Take the oldest EDUs, those that must be delivered first."""
        taken: list[EduRef] = []
        lane = self._lanes.get(None)
        if lane is not None:
            taken = [EduRef(position) for position in lane.held[:limit]]
            del lane.held[: len(taken)]
            lane.in_flight.update(edu.position for edu in taken)
        ephemeral = self._ephemeral[: limit - len(taken)]
        del self._ephemeral[: len(ephemeral)]
        return (*taken, *ephemeral)

    def put_back(self, pdus: Iterable[PduRef], edus: Sequence[EduRef]) -> None:
        """Return taken items to their positions in the queue."""
        for name, position in _positions(pdus, edus):
            lane = self._lanes[name]
            lane.in_flight.discard(position)
            lane.held = sorted([*lane.held, position])
        self._ephemeral[:0] = [edu for edu in edus if edu.ephemeral]

    def remove(self, pdus: Iterable[PduRef], edus: Iterable[EduRef]) -> None:
        """Remove taken items for good."""
        for name, position in _positions(pdus, edus):
            lane = self._lanes[name]
            lane.in_flight.discard(position)
            if lane.loading:
                lane.removed.add(position)
            self._drop_if_empty(name)

    def clear(self) -> tuple[EduRef, ...]:
        """Drop everything held in memory. The items are in Postgres, except the ephemeral EDUs, which are
        returned."""
        stale = tuple(self._ephemeral)
        self._lanes.clear()
        self._ephemeral.clear()
        return stale

    def _put(self, name: Lane, position: int) -> None:
        lane = self._lanes.setdefault(name, _Lane())
        is_full = len(lane.held) >= MAX_HELD or (not lane.held and self._held_lanes() >= MAX_LANES)
        if lane.more or lane.loading or is_full:
            lane.more = True
        elif position not in lane.in_flight and position not in lane.held:
            lane.held.append(position)

    def _held_lanes(self) -> int:
        if len(self._lanes) < MAX_LANES:
            return 0  # too few to matter
        return sum(1 for lane in self._lanes.values() if lane.held or lane.loading)

    def _drop_if_empty(self, name: Lane) -> None:
        lane = self._lanes.get(name)
        if lane is not None and lane.is_empty:
            del self._lanes[name]


def _positions(pdus: Iterable[PduRef], edus: Iterable[EduRef]) -> list[tuple[Lane, int]]:
    return [
        *((pdu.room_id, pdu.position) for pdu in pdus),
        *((None, edu.position) for edu in edus if not edu.ephemeral),
    ]
