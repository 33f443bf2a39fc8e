"""Space hierarchies: one level for other servers, and the walk through all levels for local users.

Rooms that this server is not in are requested from other servers; their responses are cached for some
minutes.
"""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Final

import orjson
from cachetools import LRUCache

from federation.caches import WeightedCache
from federation.client.client import FederationClient
from federation.client.errors import PeerMalformed, PeerRefused, PeerUnreachable
from federation.client.requests import RequestTarget, request_target
from federation.directory.room_summary import RoomSummaries, RoomSummary, is_reported_open
from federation.directory.space_hierarchy import (
    MAX_ON_PAGE,
    SummaryFields,
    Visit,
    VisitedRoom,
    encode_response,
    parse_query,
    parse_response,
    walk,
)
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.identifiers import domain, is_room_id, is_server_name
from federation.rooms.engine import RoomGraph
from storage.concurrency import SingleFlight
from storage.database import Database
from storage.rooms.outside_memberships import list_memberships_of_user
from storage.rooms.rooms import fetch_rooms_of_user, has_member_of_server

PATHS: Final = (
    "/_matrix/federation/v1/hierarchy/{roomId}",
    # Before v1.2 of the specification.
    "/_matrix/federation/unstable/org.matrix.msc2946/hierarchy/{roomId}",
)
MAX_SERVERS: Final = 3
"""The most servers that are queried about one room. As in Synapse."""
TIMEOUT: Final = 10.0
"""Seconds for one request: a client waits while many are made."""
CACHE_MS: Final = 5 * 60 * 1000
NEGATIVE_CACHE_MS: Final = 60 * 1000
"""How long a failed request for a room, or an unreachable server, is not tried again."""
MAX_CACHE_BYTES: Final = 16 * 1024 * 1024
MAX_UNREACHABLE: Final = 10_000
_BASE_WEIGHT: Final = 500

_RequestKey = tuple[str, str, bool]
"""Server, room, and `suggested_only`. One server's response about a room is not cached for another
server."""


@dataclass(frozen=True, slots=True)
class _CachedRoom:
    visited: VisitedRoom | None
    until_ms: int


def _weight(cached: _CachedRoom) -> int:
    if (visited := cached.visited) is None:
        return _BASE_WEIGHT
    return _BASE_WEIGHT + len(orjson.dumps([visited.as_json(), [*visited.reported.values()], [*visited.inaccessible]]))


class RemoteSpaces:
    def __init__(self, client: FederationClient, *, now_ms: Callable[[], int]) -> None:
        self._client = client
        self._now_ms = now_ms
        self._cache: WeightedCache[_RequestKey, _CachedRoom] = WeightedCache(MAX_CACHE_BYTES, _weight)
        self._unreachable: LRUCache[str, int] = LRUCache(MAX_UNREACHABLE)
        self._requests: SingleFlight[_RequestKey, VisitedRoom | None] = SingleFlight()

    async def close(self) -> None:
        await self._requests.close()

    async def query(self, room_id: str, servers: Iterable[str], *, suggested_only: bool) -> VisitedRoom | None:
        """Return the first response from one of the servers, or None."""
        for server in islice(servers, MAX_SERVERS):
            key = (server, room_id, suggested_only)
            cached = self._cache.get(key)
            if cached is not None and cached.until_ms > self._now_ms():
                visited = cached.visited
            elif (self._unreachable.get(server) or 0) > self._now_ms():
                continue
            else:
                visited = await self._requests.run(key, partial(self._query, *key))
            if visited is not None:
                return visited
        return None

    async def _query(self, server: str, room_id: str, suggested_only: bool) -> VisitedRoom | None:
        visited, cache_ms = None, NEGATIVE_CACHE_MS
        try:
            visited = await self._fetch(server, room_id, suggested_only)
            cache_ms = CACHE_MS
        except PeerUnreachable:
            self._unreachable[server] = self._now_ms() + NEGATIVE_CACHE_MS
        except PeerError:
            # It does not know the room, does not show it to this server, or sent an invalid response.
            # Another server may be able to respond.
            pass
        self._cache[server, room_id, suggested_only] = _CachedRoom(visited, self._now_ms() + cache_ms)
        return visited

    async def _fetch(self, server: str, room_id: str, suggested_only: bool) -> VisitedRoom:
        stable, unstable = (self._target(path, room_id, suggested_only) for path in PATHS)
        try:
            response = await self._request(server, stable)
        except PeerRefused as refused:
            if not _is_unknown_endpoint(refused):
                raise
            response = await self._request(server, unstable)
        visited = await asyncio.to_thread(parse_response, response, room_id, suggested_only=suggested_only)
        if visited is None:
            raise PeerMalformed(server, "responded with another room than requested")
        return visited

    async def _request(self, server: str, target: RequestTarget) -> dict[str, Any]:
        return await self._client.request("GET", server, target, timeout=TIMEOUT)

    @staticmethod
    def _target(path: str, room_id: str, suggested_only: bool) -> RequestTarget:
        query = [("suggested_only", "true" if suggested_only else "false")]
        return request_target(path, query=query, roomId=room_id)


def _is_unknown_endpoint(refused: PeerRefused) -> bool:
    """Whether the endpoint is unknown: 404 M_UNRECOGNIZED or a similar status; older servers had no
    errcode."""
    return refused.status in (400, 404, 405) and refused.errcode in ("M_UNRECOGNIZED", None)


MAX_PAGE_MS: Final = 20_000
"""A page ends after this time, because other servers may be slow."""
MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
"""The limit of a page, except its last room."""


@dataclass(frozen=True, slots=True)
class _Viewer:
    """The rooms that a local user has joined or is invited to."""

    joined: frozenset[str]
    invited: frozenset[str]

    def sees(self, room: RoomSummary) -> bool:
        return room.is_open or self._may_join(room.room_id, room.allowed_by)

    def sees_remote(self, fields: SummaryFields) -> bool:
        """Whether the user may see a room that this server is not in."""
        return is_reported_open(fields) or self._may_join(fields["room_id"], fields.get("allowed_room_ids", ()))

    def _may_join(self, room_id: str, allowed_by: Iterable[str]) -> bool:
        return room_id in self.joined or room_id in self.invited or not self.joined.isdisjoint(allowed_by)


class SpaceHierarchies:
    """Space hierarchies. Call `close` at the end."""

    def __init__(
        self,
        server_name: str,
        database: Database,
        client: FederationClient,
        rooms: RoomGraph,
        summaries: RoomSummaries,
        *,
        now_ms: Callable[[], int],
    ) -> None:
        self._server_name = server_name
        self._database = database
        self._rooms = rooms
        self._summaries = summaries
        self._remote = RemoteSpaces(client, now_ms=now_ms)
        self._now_ms = now_ms

    async def close(self) -> None:
        await self._remote.close()

    # -- for other servers --

    async def handle_query(self, origin: str, room_id: str, *, suggested_only: bool) -> dict[str, Any]:
        """Respond to `GET /hierarchy/{roomId}` with the room and those of its children that this server is
        in."""
        _check(room_id)
        room = await self._summaries.of(room_id)
        if room is None or not await self._is_accessible_to(origin, room):
            # "The room is not known to the server or the requesting server is unable to peek/join it".
            raise MatrixError(
                "M_NOT_FOUND", "The room is not known to this server, or your server cannot access it.", 404
            )
        children_state = await self._summaries.children(room, suggested_only=suggested_only)
        ids = [child["state_key"] for child in children_state[:MAX_ON_PAGE]]
        known = await self._summaries.of_all(ids)
        children, inaccessible = [], []
        for child in (known[one] for one in dict.fromkeys(ids) if one in known):
            if await self._is_accessible_to(origin, child):
                children.append(child)
            else:
                inaccessible.append(child.room_id)
        return encode_response(room, children_state, children, inaccessible)

    async def _is_accessible_to(self, server: str, room: RoomSummary) -> bool:
        """Whether users of the server can be in the room or peek into it."""
        if room.excludes(server):
            return False
        if room.is_open:
            return True
        async with self._database.transaction(readonly=True) as connection:
            if await has_member_of_server(connection, room.room_id, server, ("join", "invite")):
                return True
        for allowed_room in room.allowed_by:
            if await self._rooms.is_server_in_room(allowed_room, server):
                return True
        return False

    # -- for local users --

    async def hierarchy(
        self,
        room_id: str,
        user: str,
        *,
        via: Iterable[str] = (),
        limit: int | None = None,
        max_depth: int | None = None,
        suggested_only: bool = False,
        start: str | None = None,
    ) -> dict[str, Any]:
        """Return a page of the rooms of a space: `rooms`, and `next_batch` if there are more. `start` is
        the specification's `from`. 403 if the user may not see the space."""
        _check(room_id)
        query = parse_query(limit=limit, max_depth=max_depth, suggested_only=suggested_only, start=start)
        viewer = await self._viewer(user)
        deadline = self._now_ms() + MAX_PAGE_MS
        steps = walk(room_id, tuple(via), query.max_depth)
        visit: Visit | None = next(steps)
        visited_count, size = 0, 0
        page: list[dict[str, Any]] = []
        while visit is not None:
            is_full = len(page) == query.limit or size > MAX_PAGE_BYTES or self._now_ms() > deadline
            # At least one room beyond the previous page, so that the walk makes progress.
            if is_full and visited_count > query.after:
                return {"rooms": page, "next_batch": query.token(visited_count)}
            visited = await self._visit(visit, viewer, suggested_only=suggested_only)
            if visited is None and visited_count == 0:
                raise MatrixError("M_FORBIDDEN", "The space does not exist, or the user cannot access it.", 403)
            if visited is not None and visited_count >= query.after:
                page.append(visited.as_json())
                size += len(orjson.dumps(page[-1]))
            visited_count += 1
            try:
                visit = steps.send(visited)
            except StopIteration:
                visit = None
        return {"rooms": page}

    async def _visit(self, visit: Visit, viewer: _Viewer, *, suggested_only: bool) -> VisitedRoom | None:
        room = await self._summaries.of(visit.room_id)
        if room is not None:
            if not viewer.sees(room):
                return None
            return VisitedRoom(room.fields, await self._summaries.children(room, suggested_only=suggested_only))
        visited = None if visit.reported is None else VisitedRoom(visit.reported)
        if not visit.is_report_sufficient:
            # Up to room version 11 a room id has the name of the server that created the room.
            named = dict.fromkeys([*visit.via, domain(visit.room_id) or ""])
            servers = (name for name in named if name != self._server_name and is_server_name(name))
            response = await self._remote.query(visit.room_id, servers, suggested_only=suggested_only)
            visited = response or visited
        return visited if visited is not None and viewer.sees_remote(visited.fields) else None

    async def _viewer(self, user: str) -> _Viewer:
        async with self._database.transaction(readonly=True) as connection:
            joined = await fetch_rooms_of_user(connection, user)
            invited = await fetch_rooms_of_user(connection, user, ("invite",))
            outside = await list_memberships_of_user(connection, user)
        elsewhere = {one.room_id for one in outside if one.membership == "invite"}
        return _Viewer(frozenset(joined), frozenset({*invited, *elsewhere}))


def _check(room_id: str) -> None:
    if not is_room_id(room_id):
        raise MatrixError("M_INVALID_PARAM", f"{room_id[:255]} is not a valid room id.", 400)
