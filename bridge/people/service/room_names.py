"""The names by which somebody could be called in each room, believed for a moment."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from bridge.matrix_side import MatrixSide
from bridge.people.naming import calls_nobody, names_of, without_list
from federation.bounded_cache import BoundedCache
from federation.errors import MatrixError

BELIEVED: Final = 60.0
"""Seconds. Whoever has come since, or has another name, may be called by a text in which it stands."""
MOST_ROOMS: Final = 500


class RoomNames:
    def __init__(self, side: MatrixSide, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._side = side
        self._monotonic = monotonic
        self._known: BoundedCache[str, tuple[float, frozenset[str] | None]] = BoundedCache(MOST_ROOMS)

    async def without_list(self, room_id: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """What calls nobody, without saying so where that is clear from its words."""
        if not calls_nobody(content):
            return content
        known = self._known.get(room_id)
        if known is None or self._monotonic() >= known[0]:
            known = self._monotonic() + BELIEVED, await self._look(room_id)
            self._known.put(room_id, known)
        return without_list(content, known[1])

    async def _look(self, room_id: str) -> frozenset[str] | None:
        try:
            return names_of(await self._side.members(room_id))
        except MatrixError:
            return None
