"""Rooms of offices in which nothing happens any more: when they are archived, and what is said of it.

Archives the rooms of offices that nobody uses any more, and brings them back with the next who joins: one
process of the node does.

That a room is to be archived is written down first, and then it is told, as often as need be: whatever is so
already is done.
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
"""In the state `io.a2c.office`; not there for an office that is in use."""

_LOOKS: Final = 10
_SOONEST, _LATEST = 1.0, 3_600.0


def look_every(after: float | None) -> float:
    """Seconds between two looks for what has not been used for so many seconds; None: nothing is archived."""
    return _LATEST if after is None else min(_LATEST, max(_SOONEST, after / _LOOKS))


def archived_content(content: Mapping[str, Any]) -> dict[str, Any]:
    """All else that the room says of its office stays."""
    return {**content, ARCHIVED: True}


def used_content(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: said for name, said in content.items() if name != ARCHIVED}


def is_somebody_there(
    said: Iterable[RoomEvent], joined: Collection[str], is_ours: Callable[[str], bool]
) -> bool:
    """Of other nodes, whose members are nowhere but in the room: each says it of itself, and is there as long
    as it is in the room. Who has left says nothing."""
    return any(one.content and one.sender in joined and not is_ours(one.sender) for one in said)


def notice(unused_ms: int) -> Text:
    """To people. `unused_ms`: for how long it has not been used."""
    return Text.of(
        f"📦 Nobody has been in this office for {duration(unused_ms)}, so it is archived: it is in no list of"
        " rooms any more. Whoever joins the office next brings it back."
    )


NAME: Final = "offices archiving"
AT_ONCE: Final = 100
AGAIN: Final = 5.0
LOOKED_AT_EVERY: Final = 10.0
"""Seconds. Whoever joins by another process is noticed then."""


class Archiving:
    """`after`: seconds; None: nothing is archived, and what has been comes back all the same. It runs between
    `start` and `close`; `wake` says that somebody has joined."""

    def __init__(
        self, parts: RoomParts, after: float | None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._parts = parts
        self._after = after
        self._monotonic = monotonic
        self._node_user = parts.settings.names.node_user
        self._background = BackgroundTasks()
        self._wanted = asyncio.Event()
        self._next_look = 0.0

    def start(self) -> None:
        self._background.supervise("archiving of offices", self._work_as_the_one)

    async def close(self) -> None:
        await self._background.close()

    def wake(self) -> None:
        self._wanted.set()

    # -- inside --

    async def _work_as_the_one(self) -> None:
        """One process of the node does."""
        async with self._parts.database.session.lease(NAME):
            while True:
                await self._work_once()

    async def _work_once(self) -> None:
        self._wanted.clear()
        try:
            await self._work()
        except ConnectionLost as lost:
            self._parts.report("Rooms of offices are archived and brought back later.", lost)
            await asyncio.sleep(AGAIN)
            return
        except Exception as error:
            self._parts.report("Rooms of offices could not be archived or brought back.", error)
            await asyncio.sleep(AGAIN)
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pause()):
                await self._wanted.wait()

    def _pause(self) -> float:
        return max(0.0, min(LOOKED_AT_EVERY, self._next_look - self._monotonic()))

    async def _work(self) -> None:
        """Whoever has come goes before what is to go."""
        async with self._parts.database.transaction(readonly=True) as connection:
            back = await office_rooms.list_used_again(connection, AT_ONCE)
        for office_id in back:
            await self._bring_back(office_id)
        if self._monotonic() >= self._next_look:
            self._next_look = self._monotonic() + look_every(self._after)
            await self._look_for_others()
            if self._after is not None:
                await self._look(self._after)
        async with self._parts.database.transaction(readonly=True) as connection:
            untold = await office_rooms.list_unannounced(connection, AT_ONCE)
        for row in untold:
            await self._tell(row)

    async def _look_for_others(self) -> None:
        """Members of other nodes may have come into archived ones: of them nothing is written down here."""
        async with self._parts.database.transaction(readonly=True) as connection:
            archived = await office_rooms.list_archived(connection)
        for office_id in archived:
            room_id = await self._room(office_id)
            if room_id is not None and await self._is_somebody_there(room_id):
                await self._bring_back(office_id)

    async def _look(self, after: float) -> None:
        before = self._parts.now_ms() - round(after * 1_000)
        async with self._parts.database.transaction() as connection:
            await office_rooms.update_last_use(connection)
            unused = await office_rooms.list_unused(connection, before, AT_ONCE)
        for office_id, position in unused:
            await self._decide(office_id, position)

    async def _decide(self, office_id: str, position: int) -> None:
        room_id = await self._room(office_id)
        is_kept = room_id is None or await self._is_somebody_there(room_id)
        async with self._parts.database.transaction() as connection:
            if is_kept:
                await office_rooms.defer_archiving(connection, office_id, self._parts.now_ms())
            else:
                await office_rooms.archive(connection, office_id, position, self._parts.now_ms())

    async def _is_somebody_there(self, room_id: str) -> bool:
        side, names = self._parts.side, self._parts.settings.names
        try:
            said = await side.state(room_id, MEMBER)
            joined = frozenset(member.user_id for member in await side.members(room_id))
            return is_somebody_there(said, joined, names.is_ours)
        except MatrixError as refused:
            if refused.status >= 500:
                raise
            return False  # it is no room of ours any more

    async def _tell(self, row: ArchivedOffice) -> None:
        room_id = await self._room(row.office_id)
        if room_id is not None:
            await self._try(row.office_id, self._close(room_id, row))
        async with self._parts.database.transaction() as connection:
            await office_rooms.mark_announced(connection, row.office_id)

    async def _bring_back(self, office_id: str) -> None:
        room_id = await self._room(office_id)
        if room_id is not None:
            await self._try(office_id, self._open(room_id))
        async with self._parts.database.transaction() as connection:
            await office_rooms.unarchive(connection, office_id, self._parts.now_ms())

    async def _try(self, office_id: str, acts: Awaitable[None]) -> None:
        """What a room does not take is no reason to try again."""
        try:
            await acts
        except MatrixError as refused:
            if refused.status >= 500:
                raise
            self._parts.report(f"The room of the office {office_id} is not ours to archive.", refused)

    async def _close(self, room_id: str, row: ArchivedOffice) -> None:
        side, names = self._parts.side, self._parts.settings.names
        await self._say_of_office(room_id, is_archived=True)
        said = content_of(notice(self._parts.now_ms() - row.used_at_ms), Kind.WORD)
        name = f"office/{row.position}/archived"
        await side.send(room_id, self._node_user, MESSAGE, said, transaction_id=name)
        await side.publish(room_id, published=False)
        ghosts = [
            member.user_id
            for member in await side.members(room_id)
            if names.is_ours(member.user_id) and member.user_id != self._node_user
        ]
        async with self._parts.database.transaction(readonly=True) as connection:
            if await office_rooms.is_used_again(connection, row.office_id):
                return  # who has come stays
        for ghost in ghosts:
            await side.leave(room_id, ghost)

    async def _open(self, room_id: str) -> None:
        await self._say_of_office(room_id, is_archived=False)
        await self._parts.side.publish(room_id, published=self._parts.settings.is_listed)

    async def _say_of_office(self, room_id: str, *, is_archived: bool) -> None:
        said = await self._parts.side.state_event(room_id, OFFICE)
        before = {} if said is None else said.content
        content = archived_content(before) if is_archived else used_content(before)
        await self._parts.side.set_state(room_id, self._node_user, OFFICE, content)

    async def _room(self, office_id: str) -> str | None:
        """None where there is none of ours: none is made for this."""
        async with self._parts.database.transaction(readonly=True) as connection:
            return await fetch_created(connection, self._node_user, room_key(office_id))
