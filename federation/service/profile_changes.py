"""Tells the rooms of a user what the profile says now, one membership event for each.

What is to be told stands in a table and is compared with what each room says, so that after a kill in the
middle it goes on where it was, and nothing is said twice.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final

from federation.errors import MatrixError, PeerError
from federation.profile import retold
from federation.service.room_ports import Rooms
from storage.connecting import ConnectionLost
from storage.current_state import fetch_rooms_of_user
from storage.database import Database
from storage.users import ProfileChange, delete_change, fetch_profile, list_changes

MEMBER: Final = "m.room.member"
CHANGES_AT_ONCE: Final = 100
ROOMS_AT_ONCE: Final = 8
"""One whose policy server is slow does not hold up the others."""
PAUSE: Final = 1.0
"""Seconds until a database that went away is asked again."""


class ProfileChanges:
    """`report` is given a sentence about a room that could not be told."""

    def __init__(self, database: Database, rooms: Rooms, report: Callable[[str], None]) -> None:
        self._database = database
        self._rooms = rooms
        self._report = report
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """What is not done yet is done after the next start."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def wake(self) -> None:
        """A change was committed."""
        self._woken.set()

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            try:
                await self._work_off()
            except ConnectionLost:
                await asyncio.sleep(PAUSE)
                continue
            await self._woken.wait()

    async def _work_off(self) -> None:
        after = 0
        while True:
            async with self._database.transaction(readonly=True) as connection:
                changes = await list_changes(connection, after, CHANGES_AT_ONCE)
            if not changes:
                return
            for change in changes:
                after = change.number
                try:
                    await self._tell(change)
                except ConnectionLost:
                    raise
                except Exception as error:
                    # The change stays, and is tried again when there is another one, or after a start.
                    self._report(f"The rooms of {change.user_id} were not told of a profile: {error!r}")

    async def _tell(self, change: ProfileChange) -> None:
        async with self._database.transaction(readonly=True) as connection:
            room_ids = await fetch_rooms_of_user(connection, change.user_id)
        gate = asyncio.Semaphore(ROOMS_AT_ONCE)

        async def tell(room_id: str) -> None:
            async with gate:
                await self._tell_room(room_id, change.user_id)

        results = await asyncio.gather(*map(tell, room_ids), return_exceptions=True)
        for result in results:
            # Refusals have been reported.
            if isinstance(result, BaseException):
                raise result
        async with self._database.transaction() as connection:
            await delete_change(connection, change)

    async def _tell_room(self, room_id: str, user: str) -> None:
        key = (MEMBER, user)
        member = (await self._rooms.current_events(room_id, [key])).get(key)
        async with self._database.transaction(readonly=True) as connection:
            profile = await fetch_profile(connection, user)
        if profile is None or member is None or member.membership != "join":
            return
        content = retold(member.content, profile)
        if content is None:
            return
        try:
            await self._rooms.send_event(room_id, MEMBER, content, user, user)
        except (MatrixError, PeerError) as refused:
            self._report(f"{room_id} was not told of the profile of {user}: {refused}")
