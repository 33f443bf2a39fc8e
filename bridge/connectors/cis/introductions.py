"""When to answer a registration with the list of our own agents.

Agent federation 1.0.0, "Agent discovery": a node that hears of an agent of another may send the list of its
own. Two that both always do never stop. So: "once per peer when it first appears or was offline, at most once
a minute, so that the exchange ends after one round". What falls into that minute is answered at its end.

Times are milliseconds of any clock. What is remembered may be lost: then there is one round more.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

PAUSE_MS: Final = 60_000
MOST: Final = 10_000


@dataclass(slots=True)
class _Met:
    introduced_at: int
    is_lost: bool = False
    # It has come back, and the minute is not over.
    is_owed: bool = False


class Introductions:
    def __init__(self, most: int = MOST) -> None:
        assert most > 0, "somebody must be told apart"
        self._most = most
        # In the order of their last introduction.
        self._met: OrderedDict[str, _Met] = OrderedDict()

    def registered(self, peer: str, now: int) -> bool:
        """The peer has registered an agent. Whether to send it the list of ours now."""
        met = self._met.get(peer)
        if met is None:
            return self._meet(peer, now)
        if not met.is_lost or met.is_owed:
            return False
        if now < met.introduced_at + PAUSE_MS:
            met.is_owed = True
            return False
        return self._introduce(peer, now)

    def lost(self, peer: str) -> None:
        """The peer has been silent for too long, or has said that it goes."""
        met = self._met.get(peer)
        if met is not None:
            met.is_lost, met.is_owed = True, False

    def due(self, now: int) -> tuple[str, ...]:
        """The peers to which the list is to be sent now."""
        due = tuple(
            peer for peer, met in self._met.items() if met.is_owed and now >= met.introduced_at + PAUSE_MS
        )
        for peer in due:
            self._introduce(peer, now)
        return due

    def deadline(self) -> int | None:
        """When there is something to do next."""
        return next((met.introduced_at + PAUSE_MS for met in self._met.values() if met.is_owed), None)

    def __len__(self) -> int:
        return len(self._met)

    def _meet(self, peer: str, now: int) -> bool:
        if len(self._met) >= self._most:
            oldest = next(iter(self._met))
            if now < self._met[oldest].introduced_at + PAUSE_MS:
                # More new peers in a minute than can be remembered: whoever sends them does not get an
                # answer to each.
                return False
            del self._met[oldest]
        return self._introduce(peer, now)

    def _introduce(self, peer: str, now: int) -> bool:
        self._met[peer] = _Met(now)
        self._met.move_to_end(peer)
        return True
