"""A homeserver that says somebody is not in a room, and at the same time that they are.

Where many speak at once, a Synapse hangs an event on some of the ends of the room, and those may not have
its sender's join: a ghost that has just come is refused what the state of the room allows, for as long as
nobody else speaks. To join once more changes nothing, since the room has the join. So somebody who was there
before ties ends together, by the event that Synapse itself has for it.
"""

import secrets
from contextlib import suppress
from functools import partial
from typing import Final

from cachetools import LRUCache
from mautrix.api import Method, Path

from appservice.homeserver.client import HomeserverClient
from appservice.intake.known_rooms import KnownRooms
from appservice.local_users.create_room import version_of
from federation.auth_rules.auth_event_selection import POWER_LEVELS
from federation.auth_rules.levels import PowerLevels
from federation.events import CREATE
from federation.matrix.errors import MatrixError
from storage.concurrency import SingleFlight

PAUSES: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)
"""Seconds before it is asked again."""
REFUSED_ANYWAY_MS: Final = 600_000
"""So long nobody insists again who was refused to the end: the homeserver may have rules of its own."""
MOST_REFUSED: Final = 10_000
KNOT: Final = "org.matrix.dummy_event"
"""It says nothing. Clients do not show it."""


class LostJoins:
    def __init__(self, client: HomeserverClient, rooms: KnownRooms, node_user: str) -> None:
        self._client = client
        self._rooms = rooms
        self._node_user = node_user
        self._tying: SingleFlight[str, None] = SingleFlight()
        # Who was refused to the end where, and when that was.
        self._refused: LRUCache[tuple[str, str], int] = LRUCache(MOST_REFUSED)

    async def may_be(
        self, room_id: str, user: str, type_: str, *, is_state: bool, refused: MatrixError, now_ms: int
    ) -> bool:
        """Whether what the user is refused is allowed by the state of the room."""
        if refused.errcode != "M_FORBIDDEN":
            return False
        before = self._refused.get((room_id, user))
        if before is not None and now_ms - before < REFUSED_ANYWAY_MS:
            return False
        if await self._rooms.membership(room_id, user) != "join":
            return False
        create, levels = [await self._rooms.state_event(room_id, *key) for key in (CREATE, POWER_LEVELS)]
        power = PowerLevels(create, levels, version_of(create))
        return power.of_user(user) >= power.required_for(type_, is_state=is_state)

    async def tie(self, room_id: str) -> None:
        """Up to ten ends of the room become one."""
        with suppress(MatrixError):
            await self._tying.run(room_id, partial(self._tie, room_id))

    async def _tie(self, room_id: str) -> None:
        if await self._rooms.membership(room_id, self._node_user) == "join":
            path = Path.v3.rooms[room_id].send[KNOT][secrets.token_hex(16)]
            await self._client.ask(Method.PUT, path, {}, user=self._node_user)

    async def close(self) -> None:
        await self._tying.close()

    def give_up(self, room_id: str, user: str, now_ms: int) -> None:
        """It was refused to the end."""
        self._refused[room_id, user] = now_ms
