"""Archives the rooms of offices that are no longer used, and restores them when a member joins again. One
process of the node does this.

That a room is to be archived is recorded first. The steps in the room follow and may be repeated: each of
them has no effect if it was done before.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from bridge.connectors.offices.rooms.office_room import MEMBER, OFFICE, room_key
from bridge.connectors.offices.rooms.rooms import RoomParts
from bridge.people.message import MESSAGE
from bridge.people.texts.text import Kind, Text, content_of
from bridge.text.times import duration
from federation.events.room_event import RoomEvent
from federation.matrix.errors import MatrixError
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.offices import rooms as office_rooms
from storage.offices.rooms import ArchivedOffice
from storage.rooms.aliases import fetch_created

ARCHIVED: Final = "archived"
"""A key in the state `io.a2c.office`; absent while the office is in use."""

_CHECKS_PER_PERIOD: Final = 10
_MIN_INTERVAL, _MAX_INTERVAL = 1.0, 3_600.0


def check_interval(after: float | None) -> float:
    """Seconds between two checks for offices that have not been used for `after` seconds; None: never
    archive."""
    return _MAX_INTERVAL if after is None else min(_MAX_INTERVAL, max(_MIN_INTERVAL, after / _CHECKS_PER_PERIOD))


def archived_content(content: Mapping[str, Any]) -> dict[str, Any]:
    """All other keys stay."""
    return {**content, ARCHIVED: True}


def used_content(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if name != ARCHIVED}


def has_remote_members(
    member_events: Iterable[RoomEvent], joined: Collection[str], is_ours: Callable[[str], bool]
) -> bool:
    """Whether members of other nodes are in the room. A member is present while its state event has content
    and its user is joined; the event of a member that has left is empty."""
    return any(one.content and one.sender in joined and not is_ours(one.sender) for one in member_events)


def archive_notice(unused_ms: int) -> Text:
    """A message to people. `unused_ms` is the time for which the office has not been used."""
    return Text.of(
        f"📦 This office has had no members for {duration(unused_ms)}, so it is archived and no longer listed"
        " in room directories. It is restored when a member joins it."
    )


NAME: Final = "offices archiving"
BATCH_SIZE: Final = 100
RETRY_DELAY: Final = 5.0
POLL_INTERVAL: Final = 10.0
"""Seconds until a member that has joined through another process is noticed."""


class OfficeArchiver:
    """Archives offices that are unused for `after` seconds; None: never, but archived ones are still
    restored. It runs between `start` and `close`; call `wake` when a member has joined."""

    def __init__(
        self, parts: RoomParts, after: float | None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._parts = parts
        self._after = after
        self._monotonic = monotonic
        self._node_user = parts.settings.names.node_user
        self._background = BackgroundTasks()
        self._woken = asyncio.Event()
        self._next_check = 0.0

    def start(self) -> None:
        self._background.supervise("archiving of offices", self._run)

    async def close(self) -> None:
        await self._background.close()

    def wake(self) -> None:
        self._woken.set()

    # -- internals --

    async def _run(self) -> None:
        """Only the process with the lease does the work."""
        async with self._parts.database.session.lease(NAME):
            while True:
                await self._run_once()

    async def _run_once(self) -> None:
        self._woken.clear()
        try:
            await self._work()
        except ConnectionLost as lost:
            self._parts.report("Archiving of offices is delayed: the database is unavailable.", lost)
            await asyncio.sleep(RETRY_DELAY)
            return
        except Exception as error:
            self._parts.report("Failed to archive or restore rooms of offices.", error)
            await asyncio.sleep(RETRY_DELAY)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pause()):
                await self._woken.wait()

    def _pause(self) -> float:
        return max(0.0, min(POLL_INTERVAL, self._next_check - self._monotonic()))

    async def _work(self) -> None:
        """Restore offices before any are archived."""
        async with self._parts.database.transaction(readonly=True) as connection:
            used_again = await office_rooms.list_used_again(connection, BATCH_SIZE)
        for office_id in used_again:
            await self._restore(office_id)
        if self._monotonic() >= self._next_check:
            self._next_check = self._monotonic() + check_interval(self._after)
            await self._restore_with_remote_members()
            if self._after is not None:
                await self._select_unused(self._after)
        async with self._parts.database.transaction(readonly=True) as connection:
            to_archive = await office_rooms.list_unannounced(connection, BATCH_SIZE)
        for row in to_archive:
            await self._archive(row)

    async def _restore_with_remote_members(self) -> None:
        """Members of other nodes may have joined archived offices; their joins are not recorded on this
        node."""
        async with self._parts.database.transaction(readonly=True) as connection:
            archived = await office_rooms.list_archived(connection)
        for office_id in archived:
            room_id = await self._room(office_id)
            if room_id is not None and await self._has_remote_members(room_id):
                await self._restore(office_id)

    async def _select_unused(self, after: float) -> None:
        before = self._parts.now_ms() - round(after * 1_000)
        async with self._parts.database.transaction() as connection:
            await office_rooms.update_last_use(connection)
            unused = await office_rooms.list_unused(connection, before, BATCH_SIZE)
        for office_id, position in unused:
            await self._decide(office_id, position)

    async def _decide(self, office_id: str, position: int) -> None:
        room_id = await self._room(office_id)
        is_used = room_id is None or await self._has_remote_members(room_id)
        async with self._parts.database.transaction() as connection:
            if is_used:
                await office_rooms.defer_archiving(connection, office_id, self._parts.now_ms())
            else:
                await office_rooms.archive(connection, office_id, position, self._parts.now_ms())

    async def _has_remote_members(self, room_id: str) -> bool:
        backend, names = self._parts.backend, self._parts.settings.names
        try:
            member_events = await backend.state(room_id, MEMBER)
            joined = frozenset(member.user_id for member in await backend.members(room_id))
            return has_remote_members(member_events, joined, names.is_ours)
        except MatrixError as refused:
            if refused.status >= 500:
                raise
            return False  # this node is no longer in the room

    async def _archive(self, row: ArchivedOffice) -> None:
        room_id = await self._room(row.office_id)
        if room_id is not None:
            await self._try(row.office_id, self._close(room_id, row))
        async with self._parts.database.transaction() as connection:
            await office_rooms.mark_announced(connection, row.office_id)

    async def _restore(self, office_id: str) -> None:
        room_id = await self._room(office_id)
        if room_id is not None:
            await self._try(office_id, self._open(room_id))
        async with self._parts.database.transaction() as connection:
            await office_rooms.unarchive(connection, office_id, self._parts.now_ms())

    async def _try(self, office_id: str, steps: Awaitable[None]) -> None:
        """If the room refuses a step, it is not repeated; if the homeserver fails, it is."""
        try:
            await steps
        except MatrixError as refused:
            if refused.status >= 500:
                raise
            self._parts.report(f"The room of the office {office_id} cannot be archived or restored.", refused)

    async def _close(self, room_id: str, row: ArchivedOffice) -> None:
        backend, names = self._parts.backend, self._parts.settings.names
        await self._set_archived(room_id, is_archived=True)
        content = content_of(archive_notice(self._parts.now_ms() - row.used_at_ms), Kind.NOTICE)
        name = f"office/{row.position}/archived"
        await backend.send(room_id, self._node_user, MESSAGE, content, transaction_id=name)
        await backend.publish(room_id, published=False)
        ghosts = [
            member.user_id
            for member in await backend.members(room_id)
            if names.is_ours(member.user_id) and member.user_id != self._node_user
        ]
        async with self._parts.database.transaction(readonly=True) as connection:
            if await office_rooms.is_used_again(connection, row.office_id):
                return  # members that have just joined stay
        for ghost in ghosts:
            await backend.leave(room_id, ghost)

    async def _open(self, room_id: str) -> None:
        await self._set_archived(room_id, is_archived=False)
        await self._parts.backend.publish(room_id, published=self._parts.settings.is_listed)

    async def _set_archived(self, room_id: str, *, is_archived: bool) -> None:
        event = await self._parts.backend.state_event(room_id, OFFICE)
        before = {} if event is None else event.content
        content = archived_content(before) if is_archived else used_content(before)
        await self._parts.backend.set_state(room_id, self._node_user, OFFICE, content)

    async def _room(self, office_id: str) -> str | None:
        """None if this node has not created the office's room; it is not created for archiving."""
        async with self._parts.database.transaction(readonly=True) as connection:
            return await fetch_created(connection, self._node_user, room_key(office_id))
