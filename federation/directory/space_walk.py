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
from federation.directory.room_summary import RoomSummaries, RoomSummary, is_said_open
from federation.directory.space_hierarchy import (
    MOST_ON_PAGE,
    Look,
    Said,
    Seen,
    answer,
    read_answer,
    route,
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
MOST_SERVERS: Final = 3
"""The most servers that are queried about one room. As in Synapse."""
TIMEOUT: Final = 10.0
"""Seconds for one request: a client waits while many are made."""
KEPT_MS: Final = 5 * 60 * 1000
MISSED_MS: Final = 60 * 1000
"""How long a failed request for a room, or an unreachable server, is not tried again."""
MOST_BYTES_REMEMBERED: Final = 16 * 1024 * 1024
MOST_SILENT: Final = 10_000
_WEIGHT_OF_ANY: Final = 500

_Question = tuple[str, str, bool]
"""Server, room, and `suggested_only`. One server's response about a room is not cached for another
server."""


@dataclass(frozen=True, slots=True)
class _Kept:
    seen: Seen | None
    until_ms: int


def _weight(kept: _Kept) -> int:
    if (seen := kept.seen) is None:
        return _WEIGHT_OF_ANY
    return _WEIGHT_OF_ANY + len(orjson.dumps([seen.as_json(), [*seen.heard.values()], [*seen.inaccessible]]))


class RemoteHierarchy:
    def __init__(self, client: FederationClient, *, now_ms: Callable[[], int]) -> None:
        self._client = client
        self._now_ms = now_ms
        self._kept: WeightedCache[_Question, _Kept] = WeightedCache(MOST_BYTES_REMEMBERED, _weight)
        self._silent: LRUCache[str, int] = LRUCache(MOST_SILENT)
        self._questions: SingleFlight[_Question, Seen | None] = SingleFlight()

    async def close(self) -> None:
        await self._questions.close()

    async def ask(self, room_id: str, servers: Iterable[str], *, suggested_only: bool) -> Seen | None:
        """Return the first response from one of the servers, or None."""
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
            self._silent[server] = self._now_ms() + MISSED_MS
        except PeerError:
            # It does not know the room, does not show it to this server, or sent an invalid response.
            # Another server may be able to respond.
            pass
        self._kept[server, room_id, suggested_only] = _Kept(seen, self._now_ms() + good_for)
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
            raise PeerMalformed(server, "responded with another room than requested")
        return seen

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


LONGEST_PAGE_MS: Final = 20_000
"""A page ends after this time, because other servers may be slow."""
MOST_BYTES_OF_PAGE: Final = 4 * 1024 * 1024
"""The limit of a page, except its last room."""


@dataclass(frozen=True, slots=True)
class _Viewer:
    """The rooms that a local user has joined or is invited to."""

    joined: frozenset[str]
    invited: frozenset[str]

    def sees(self, room: RoomSummary) -> bool:
        return room.is_open or self._may_come(room.room_id, room.admitting)

    def sees_elsewhere(self, said: Said) -> bool:
        """Whether the user may see a room that this server is not in."""
        return is_said_open(said) or self._may_come(said["room_id"], said.get("allowed_room_ids", ()))

    def _may_come(self, room_id: str, admitting: Iterable[str]) -> bool:
        return room_id in self.joined or room_id in self.invited or not self.joined.isdisjoint(admitting)


class Spaces:
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
        self._remote = RemoteHierarchy(client, now_ms=now_ms)
        self._now_ms = now_ms

    async def close(self) -> None:
        await self._remote.close()

    # -- for other servers --

    async def answer(self, origin: str, room_id: str, *, suggested_only: bool) -> dict[str, Any]:
        """Respond to `GET /hierarchy/{roomId}` with the room and those of its children that this server is
        in."""
        _check(room_id)
        room = await self._summaries.of(room_id)
        if room is None or not await self._is_shown_to(origin, room):
            # "The room is not known to the server or the requesting server is unable to peek/join it".
            raise MatrixError(
                "M_NOT_FOUND", "The room is not known to this server, or your server cannot access it.", 404
            )
        children_state = await self._summaries.children(room, suggested_only=suggested_only)
        ids = [child["state_key"] for child in children_state[:MOST_ON_PAGE]]
        known = await self._summaries.of_all(ids)
        children, inaccessible = [], []
        for child in (known[one] for one in dict.fromkeys(ids) if one in known):
            if await self._is_shown_to(origin, child):
                children.append(child)
            else:
                inaccessible.append(child.room_id)
        return answer(room, children_state, children, inaccessible)

    async def _is_shown_to(self, server: str, room: RoomSummary) -> bool:
        """Whether users of the server can be in the room or peek into it."""
        if room.shuts_out(server):
            return False
        if room.is_open:
            return True
        async with self._database.transaction(readonly=True) as connection:
            if await has_member_of_server(connection, room.room_id, server, ("join", "invite")):
                return True
        for admitting in room.admitting:
            if await self._rooms.is_server_in_room(admitting, server):
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
        asked = route(limit=limit, max_depth=max_depth, suggested_only=suggested_only, start=start)
        viewer = await self._viewer(user)
        ends_at = self._now_ms() + LONGEST_PAGE_MS
        talk = walk(room_id, tuple(via), asked.max_depth)
        look: Look | None = next(talk)
        looked_at, size = 0, 0
        page: list[dict[str, Any]] = []
        while look is not None:
            is_full = len(page) == asked.limit or size > MOST_BYTES_OF_PAGE or self._now_ms() > ends_at
            # At least one room beyond the previous page, so that the walk makes progress.
            if is_full and looked_at > asked.after:
                return {"rooms": page, "next_batch": asked.token(looked_at)}
            seen = await self._seen(look, viewer, suggested_only=suggested_only)
            if seen is None and looked_at == 0:
                raise MatrixError(
                    "M_FORBIDDEN", "The space does not exist, or the user cannot access it.", 403
                )
            if seen is not None and looked_at >= asked.after:
                page.append(seen.as_json())
                size += len(orjson.dumps(page[-1]))
            looked_at += 1
            try:
                look = talk.send(seen)
            except StopIteration:
                look = None
        return {"rooms": page}

    async def _seen(self, look: Look, viewer: _Viewer, *, suggested_only: bool) -> Seen | None:
        room = await self._summaries.of(look.room_id)
        if room is not None:
            if not viewer.sees(room):
                return None
            return Seen(room.said, await self._summaries.children(room, suggested_only=suggested_only))
        seen = None if look.heard is None else Seen(look.heard)
        if not look.hearsay_is_enough:
            # Up to room version 11 a room id has the name of the server that created the room.
            named = dict.fromkeys([*look.via, domain(look.room_id) or ""])
            servers = (one for one in named if one != self._server_name and is_server_name(one))
            told = await self._remote.ask(look.room_id, servers, suggested_only=suggested_only)
            seen = told or seen
        return seen if seen is not None and viewer.sees_elsewhere(seen.said) else None

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
