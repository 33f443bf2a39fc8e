"""Profiles of local users, and of remote users, which are queried and cached.

When a local profile changes, a new member event is sent to each room of the user. Pending changes are
stored and compared with the current member events. So after a crash they are completed, and no event is
sent twice.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from federation.caches import WeightedCache
from federation.client.client import FederationClient
from federation.client.errors import PeerMalformed, PeerRefused
from federation.client.requests import request_target
from federation.directory.profile import (
    MAX_CHARACTERS,
    apply_changes,
    parse_profile,
    parse_profile_query,
    updated_member_content,
)
from federation.matrix.canonical_json import encode
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.identifiers import domain, is_current_user_id, is_user_id
from federation.rooms.engine import RoomGraph
from storage.concurrency import BackgroundTasks, SingleFlight
from storage.connect import ConnectionLost
from storage.database import Database
from storage.federation.users import (
    ProfileChange,
    delete_change,
    fetch_profile,
    insert_change,
    insert_user,
    is_user,
    list_changes,
    lock_profile,
    update_profile,
)
from storage.rooms.rooms import fetch_rooms_of_user

MEMBER: Final = "m.room.member"
CHANGES_PER_QUERY: Final = 100
CONCURRENT_ROOMS: Final = 8
"""Rooms are updated concurrently, so that a slow policy server of one room does not delay the others."""


class ProfileUpdater:
    """Sends changed profiles to rooms. `report` receives a sentence about each room that could not be
    updated."""

    def __init__(self, database: Database, rooms: RoomGraph, report: Callable[[str], None]) -> None:
        self._database = database
        self._rooms = rooms
        self._report = report
        self._has_changes = asyncio.Event()
        self._tasks = BackgroundTasks()

    def start(self) -> None:
        self._has_changes.set()
        self._tasks.supervise("changes of profiles", self._run)

    async def close(self) -> None:
        """Stop. Pending changes are completed after the next start."""
        await self._tasks.close()

    def wake(self) -> None:
        """Call this after a change was committed."""
        self._has_changes.set()

    async def _run(self) -> None:
        await self._has_changes.wait()
        self._has_changes.clear()
        try:
            await self._process_changes()
        except BaseException:
            self._has_changes.set()
            raise

    async def _process_changes(self) -> None:
        after = 0
        while True:
            async with self._database.transaction(readonly=True) as connection:
                changes = await list_changes(connection, after, CHANGES_PER_QUERY)
            if not changes:
                return
            for change in changes:
                after = change.number
                try:
                    await self._update_rooms(change)
                except ConnectionLost:
                    raise
                except Exception as error:
                    # The change stays stored and is retried with the next change or after a restart.
                    self._report(f"The profile of {change.user_id} could not be updated in all rooms: {error!r}")

    async def _update_rooms(self, change: ProfileChange) -> None:
        async with self._database.transaction(readonly=True) as connection:
            room_ids = await fetch_rooms_of_user(connection, change.user_id)
        gate = asyncio.Semaphore(CONCURRENT_ROOMS)

        async def update(room_id: str) -> None:
            async with gate:
                await self._update_room(room_id, change.user_id)

        results = await asyncio.gather(*map(update, room_ids), return_exceptions=True)
        for result in results:
            # Refusals were reported by the calls.
            if isinstance(result, BaseException):
                raise result
        async with self._database.transaction() as connection:
            await delete_change(connection, change)

    async def _update_room(self, room_id: str, user: str) -> None:
        key = (MEMBER, user)
        member = (await self._rooms.current_events(room_id, [key])).get(key)
        async with self._database.transaction(readonly=True) as connection:
            profile = await fetch_profile(connection, user)
        if profile is None or member is None or member.membership != "join":
            return
        content = updated_member_content(member.content, profile)
        if content is None:
            return
        try:
            await self._rooms.send_event(room_id, MEMBER, content, user, user)
        except (MatrixError, PeerError) as refused:
            self._report(f"The profile of {user} could not be updated in {room_id}: {refused}")


CACHE_MS: Final = 5 * 60 * 1000
"""How long a remote profile is cached."""
NEGATIVE_CACHE_MS: Final = 60 * 1000
"""How long it is cached that a remote user does not exist."""
MAX_BYTES: Final = 8 * 1024 * 1024
"""The limit of all cached profiles."""
_BASE_WEIGHT: Final = 500


@dataclass(frozen=True, slots=True)
class _CachedProfile:
    profile: Mapping[str, Any] | None
    until_ms: int


def _weight(cached: _CachedProfile) -> int:
    return _BASE_WEIGHT + (0 if cached.profile is None else len(encode(cached.profile)))


class Profiles:
    """The profiles of local and remote users. Runs between `start` and `close`. `report` receives a
    sentence about each room that could not be updated."""

    def __init__(
        self,
        server_name: str,
        database: Database,
        client: FederationClient,
        rooms: RoomGraph,
        *,
        now_ms: Callable[[], int],
        report: Callable[[str], None] = lambda problem: None,
    ) -> None:
        self._server_name = server_name
        self._database = database
        self._client = client
        self._now_ms = now_ms
        self._changes = ProfileUpdater(database, rooms, report)
        self._cache: WeightedCache[str, _CachedProfile] = WeightedCache(MAX_BYTES, _weight)
        self._requests: SingleFlight[str, Mapping[str, Any] | None] = SingleFlight()

    async def start(self) -> None:
        """Begin to send changed profiles, including those left by a previous process."""
        self._changes.start()

    async def close(self) -> None:
        await self._changes.close()
        await self._requests.close()

    # -- users of this server --

    async def ensure_user(self, user: str) -> None:
        """Create the user if needed. It must be a user of this server with a localpart valid for new
        users."""
        if not self._is_local(user) or not is_current_user_id(user):
            raise MatrixError("M_INVALID_USERNAME", f"{user[:255]} is not a valid user id of this server.", 400)
        async with self._database.transaction() as connection:
            await insert_user(connection, user, self._now_ms())

    async def exists(self, user: str) -> bool:
        """Return whether this user of this server exists."""
        if not self._is_local(user):
            return False
        async with self._database.transaction(readonly=True) as connection:
            return await is_user(connection, user)

    async def set_profile(self, user: str, **fields: Any) -> None:
        """Set `displayname`, `avatar_url` or other fields; None removes a field. The change is committed
        when this returns; the user's rooms are updated afterwards."""
        async with self._database.transaction() as connection:
            before = await lock_profile(connection, user) if self._is_local(user) else None
            if before is None:
                raise _no_such_user()
            after = apply_changes(before, fields)
            await update_profile(connection, user, after)
            concerns_rooms = any(before.get(name) != after.get(name) for name in MAX_CHARACTERS)
            if concerns_rooms:
                await insert_change(connection, user)
        if concerns_rooms:
            self._changes.wake()

    # -- local and remote users --

    async def profile(self, user: str) -> dict[str, Any] | None:
        """Return the profile of a user, or None if the user does not exist. Raises `PeerError` if the
        user's server does not respond."""
        if not is_user_id(user):
            raise MatrixError("M_INVALID_PARAM", f"{user[:255]} is not a valid user id.", 400)
        if self._is_local(user):
            return await self._database.read(lambda connection: fetch_profile(connection, user))
        cached = self._cache.get(user)
        if cached is not None and cached.until_ms > self._now_ms():
            profile = cached.profile
        else:
            profile = await self._requests.run(user, lambda: self._query(user))
        return None if profile is None else dict(profile)

    async def handle_query(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Respond to `GET /query/profile` for a user of this server."""
        user, field = parse_profile_query(query)
        profile = await self.profile(user) if self._is_local(user) else None
        if profile is None:
            raise _no_such_user()
        # "If specified, the server will only return the given field in the response."
        return {name: value for name, value in profile.items() if field in (None, name)}

    async def _query(self, user: str) -> Mapping[str, Any] | None:
        server = domain(user)
        assert server is not None, "a user id has a server name"
        target = request_target("/_matrix/federation/v1/query/profile", query=[("user_id", user)])
        try:
            profile = parse_profile(await self._client.request("GET", server, target))
        except PeerRefused as refused:
            # "404: The user does not exist or does not have a profile."
            if refused.status != 404:
                raise
            self._cache[user] = _CachedProfile(None, self._now_ms() + NEGATIVE_CACHE_MS)
            return None
        if profile is None:
            raise PeerMalformed(server, "responded with a profile larger than allowed")
        self._cache[user] = _CachedProfile(profile, self._now_ms() + CACHE_MS)
        return profile

    def _is_local(self, user: str) -> bool:
        return is_user_id(user) and domain(user) == self._server_name


def _no_such_user() -> MatrixError:
    return MatrixError("M_NOT_FOUND", "This user does not exist on this server.", 404)
