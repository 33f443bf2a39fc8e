"""Says things in rooms as users of this node.

What is said bears a transaction id made from what it is about: after a kill it is said again, and is the same
event. What a room does not take is told to the operator, and is no reason to try again.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Final

from bridge.matrix_side import MatrixSide
from bridge.people.message import MESSAGE, REACTION
from bridge.people.service.room_names import RoomNames
from bridge.people.text import Kind, Text, content_of
from bridge.service.session import Report
from federation.errors import MatrixError
from federation.message_content import edit, in_thread, reaction, reply
from storage import people
from storage.database import Database

ENCRYPTED: Final = "encrypted"
CANNOT_READ: Final = (
    "This room is encrypted, and agents cannot read what is said in it: write to them in a room that is not."
)


class Voice:
    def __init__(self, side: MatrixSide, database: Database, node_user: str, report: Report) -> None:
        self._side = side
        self._database = database
        self._node_user = node_user
        self._report = report
        self._names = RoomNames(side)
        self._once = asyncio.Lock()

    async def speaker(self, room_id: str, wanted: Sequence[str | None]) -> str | None:
        """The first of these users who is in the room."""
        for user in dict.fromkeys(wanted):
            if user is not None and await self._membership(room_id, user) == "join":
                return user
        return None

    async def say(
        self, room_id: str, speaker: str, content: Mapping[str, Any], name: str | None = None
    ) -> str | None:
        """The event; None if the room does not take it. `name` is what makes it the same one again."""
        content = self._names.without_list(room_id, content)
        event_id = await self._try(
            room_id, self._side.send(room_id, speaker, MESSAGE, content, transaction_id=name)
        )
        if event_id is not None:
            await self._names.learn(room_id)
        return event_id

    async def edit(
        self, room_id: str, event_id: str, content: Mapping[str, Any], name: str | None = None
    ) -> str | None:
        """As whoever said it."""
        said = await self._side.event(room_id, event_id)
        if said is None or said.is_redacted:
            return None
        return await self.say(room_id, said.sender, edit(event_id, content), name)

    async def react(self, room_id: str, speaker: str, event_id: str, key: str, name: str) -> str | None:
        content = reaction(event_id, key)
        return await self._try(
            room_id, self._side.send(room_id, speaker, REACTION, content, transaction_id=name)
        )

    async def take_back(self, room_id: str, event_id: str, name: str) -> None:
        """As whoever said it."""
        said = await self._side.event(room_id, event_id)
        if said is not None and not said.is_redacted:
            await self._try(room_id, self._side.redact(room_id, said.sender, event_id, transaction_id=name))

    async def say_once(self, room_id: str, speaker: str, what: str, text: Text) -> None:
        """Several may find out at the same moment that it has to be said."""
        async with self._once:
            async with self._database.transaction(readonly=True) as connection:
                if await people.was_said(connection, room_id, what):
                    return
            await self.say(room_id, speaker, content_of(text, Kind.WORD), f"once/{what}")
            async with self._database.transaction() as connection:
                await people.insert_said(connection, room_id, what)

    async def cannot_read(self, room_id: str, speakers: Sequence[str]) -> None:
        speaker = await self.speaker(room_id, speakers)
        if speaker is not None:
            await self.say_once(room_id, speaker, ENCRYPTED, Text.of(CANNOT_READ))

    async def _membership(self, room_id: str, user: str) -> str | None:
        try:
            return await self._side.membership(room_id, user)
        except MatrixError:
            return None

    async def _try(self, room_id: str, act: Awaitable[str]) -> str | None:
        try:
            return await act
        except MatrixError as refused:
            if refused.status >= 500:
                raise
            self._report(f"Something could not be said in the room {room_id}.", refused)
            return None


def beside(content: Mapping[str, Any], *, request: str, root: str | None) -> dict[str, Any]:
    """As an answer to the request: in the thread, or, without one, in the room itself."""
    if root is None:
        return reply(request, content)
    # To what begins the thread nothing in it is an answer of its own.
    return in_thread(root, content, replies_to=None if request == root else request)
