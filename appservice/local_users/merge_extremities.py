"""Works around joins that Synapse loses: the homeserver refuses a user's event with "not in the room"
although the room's state has the join.

Under load, Synapse attaches an event to some of the room's forward extremities, and those may not include its
sender's join: a ghost that has just joined is refused what the room's state allows, until another event is
sent. Joining again changes nothing, since the state has the join. So the node's own user, who joined earlier,
merges extremities with the event that Synapse itself uses for that.
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

RETRY_DELAYS: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)
"""Seconds before each retry."""
REFUSAL_TTL_MS: Final = 600_000
"""How long refused sends of a user in a room are not retried after the last retry failed: the homeserver may
have rules of its own."""
MAX_REFUSED: Final = 10_000
DUMMY_EVENT: Final = "org.matrix.dummy_event"
"""It has no content, and clients do not show it."""


class LostJoinRepair:
    def __init__(self, client: HomeserverClient, rooms: KnownRooms, node_user: str) -> None:
        self._client = client
        self._rooms = rooms
        self._node_user = node_user
        self._merging: SingleFlight[str, None] = SingleFlight()
        # Users and rooms whose last retry failed, with the time of the failure.
        self._refused: LRUCache[tuple[str, str], int] = LRUCache(MAX_REFUSED)

    async def is_lost_join(
        self, room_id: str, user: str, type_: str, *, is_state: bool, refused: MatrixError, now_ms: int
    ) -> bool:
        """Whether the room's state allows what the homeserver refused."""
        if refused.errcode != "M_FORBIDDEN":
            return False
        before = self._refused.get((room_id, user))
        if before is not None and now_ms - before < REFUSAL_TTL_MS:
            return False
        if await self._rooms.membership(room_id, user) != "join":
            return False
        create, levels = [await self._rooms.state_event(room_id, *key) for key in (CREATE, POWER_LEVELS)]
        power = PowerLevels(create, levels, version_of(create))
        return power.of_user(user) >= power.required_for(type_, is_state=is_state)

    async def merge_extremities(self, room_id: str) -> None:
        """Merge up to ten forward extremities of the room."""
        with suppress(MatrixError):
            await self._merging.run(room_id, partial(self._merge, room_id))

    async def _merge(self, room_id: str) -> None:
        if await self._rooms.membership(room_id, self._node_user) == "join":
            path = Path.v3.rooms[room_id].send[DUMMY_EVENT][secrets.token_hex(16)]
            await self._client.request(Method.PUT, path, {}, user=self._node_user)

    async def close(self) -> None:
        await self._merging.close()

    def record_refusal(self, room_id: str, user: str, now_ms: int) -> None:
        """The last retry was refused."""
        self._refused[room_id, user] = now_ms
