"""Asks other servers about spaces, and keeps what they say for some minutes."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

import orjson

from federation.bounded_cache import BoundedCache
from federation.errors import PeerError
from federation.peer_errors import PeerMalformed, PeerRefused, PeerUnreachable
from federation.request_target import RequestTarget, request_target
from federation.service.client import FederationClient
from federation.service.single_flight import SingleFlight
from federation.space_hierarchy import Seen, read_answer
from federation.weighted_cache import WeightedCache

PATHS: Final = (
    "/_matrix/federation/v1/hierarchy/{roomId}",
    # Until v1.2 of the specification.
    "/_matrix/federation/unstable/org.matrix.msc2946/hierarchy/{roomId}",
)
MOST_SERVERS: Final = 3
"""That are asked about one room. As in Synapse."""
PATIENCE: Final = 10.0
"""Seconds for one question: somebody waits for the answers to many."""
KEPT_MS: Final = 5 * 60 * 1000
MISSED_MS: Final = 60 * 1000
"""How long it is good that a server says nothing of a room, or nothing at all."""
MOST_BYTES: Final = 16 * 1024 * 1024
MOST_SILENT: Final = 10_000
_WEIGHT_OF_ANY: Final = 500

_Question = tuple[str, str, bool]
"""Server, room, and whether only suggested children are wanted. What one server says of a room is no word on
it by another."""


@dataclass(frozen=True, slots=True)
class _Kept:
    seen: Seen | None
    until_ms: int


class RemoteHierarchy:
    def __init__(self, client: FederationClient, *, now_ms: Callable[[], int]) -> None:
        self._client = client
        self._now_ms = now_ms
        self._kept: WeightedCache[_Question, _Kept] = WeightedCache(MOST_BYTES)
        self._silent: BoundedCache[str, int] = BoundedCache(MOST_SILENT)
        self._questions: SingleFlight[_Question, Seen | None] = SingleFlight()

    async def close(self) -> None:
        await self._questions.close()

    async def ask(self, room_id: str, servers: Iterable[str], *, suggested_only: bool) -> Seen | None:
        """What the first of the servers says that says anything."""
        for server in islice(servers, MOST_SERVERS):
            question = (server, room_id, suggested_only)
            kept = self._kept.get(question)
            if kept is not None and kept.until_ms > self._now_ms():
                seen = kept.seen
            elif (self._silent.get(server) or 0) > self._now_ms():
                continue
            else:
                seen = await self._questions.run(question, partial(self._ask, *question))
            if seen is not None:
                return seen
        return None

    async def _ask(self, server: str, room_id: str, suggested_only: bool) -> Seen | None:
        seen, good_for = None, MISSED_MS
        try:
            seen = await self._answer(server, room_id, suggested_only)
            good_for = KEPT_MS
        except PeerUnreachable:
            self._silent.put(server, self._now_ms() + MISSED_MS)
        except PeerError:
            # It does not know the room, does not show it to us, or talks nonsense: another one may do better.
            pass
        weight = _WEIGHT_OF_ANY
        if seen is not None:
            weight += len(orjson.dumps([seen.as_json(), [*seen.heard.values()], [*seen.inaccessible]]))
        self._kept.put((server, room_id, suggested_only), _Kept(seen, self._now_ms() + good_for), weight)
        return seen

    async def _answer(self, server: str, room_id: str, suggested_only: bool) -> Seen:
        stable, unstable = (self._target(path, room_id, suggested_only) for path in PATHS)
        try:
            answer = await self._request(server, stable)
        except PeerRefused as refused:
            if not _is_unknown_endpoint(refused):
                raise
            answer = await self._request(server, unstable)
        seen = await asyncio.to_thread(read_answer, answer, room_id, suggested_only=suggested_only)
        if seen is None:
            raise PeerMalformed(server, "answered with another room than was asked for")
        return seen

    async def _request(self, server: str, target: RequestTarget) -> dict[str, Any]:
        return await self._client.request("GET", server, target, timeout=PATIENCE)

    @staticmethod
    def _target(path: str, room_id: str, suggested_only: bool) -> RequestTarget:
        query = [("suggested_only", "true" if suggested_only else "false")]
        return request_target(path, query=query, roomId=room_id)


def _is_unknown_endpoint(refused: PeerRefused) -> bool:
    """404 M_UNRECOGNIZED, or another status of that kind; older servers had no errcode for it."""
    return refused.status in (400, 404, 405) and refused.errcode in ("M_UNRECOGNIZED", None)
