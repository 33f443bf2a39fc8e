"""Resolves room aliases, and manages the aliases and published rooms of this server."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from federation.client.errors import PeerMalformed, PeerRefused
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain, is_room_alias, is_room_id, is_server_name
from federation.memberships.outgoing import MembershipClient
from federation.rooms.engine import RoomGraph
from storage.database import Database
from storage.rooms.aliases import (
    Alias,
    delete_alias,
    fetch_alias,
    insert_alias,
    is_published,
    list_aliases_of_room,
    publish_room,
    unpublish_room,
)

MAX_SERVERS: Final = 500
"""The most servers in a response. A server that wants to join tries a few of them."""


RoomCreator = Callable[[str, str], Awaitable[bool]]
"""Called with an unknown alias of this server and the requesting server; returns whether it now has a
room."""


async def _create_no_room(alias: str, requester: str) -> bool:
    return False


class Directory:
    """The aliases and published rooms of this server. Callers check who may change them. `resolve` is a
    `federation.memberships.outgoing.LocalAlias`."""

    def __init__(
        self,
        server_name: str,
        database: Database,
        membership_client: MembershipClient,
        rooms: RoomGraph,
        *,
        now_ms: Callable[[], int],
    ) -> None:
        self._server_name = server_name
        self._database = database
        self._membership_client = membership_client
        self._rooms = rooms
        self._now_ms = now_ms
        self.create_missing_room: RoomCreator = _create_no_room

    # -- aliases --

    async def create(self, alias: str, room_id: str, user: str) -> None:
        """Create an alias. Repeating it has no effect; 409 if the alias belongs to another room."""
        self._check_local_alias(alias)
        _check_room(room_id)
        async with self._database.transaction() as connection:
            if await insert_alias(connection, Alias(alias, room_id, user, self._now_ms())):
                return
            existing = await fetch_alias(connection, alias)
        if existing is None or existing.room_id != room_id:
            raise MatrixError("M_ROOM_IN_USE", f"The alias {alias} belongs to another room.", 409)

    async def remove(self, alias: str) -> bool:
        """Delete an alias; return whether it existed."""
        self._check_local_alias(alias)
        async with self._database.transaction() as connection:
            return await delete_alias(connection, alias)

    async def fetch(self, alias: str) -> Alias | None:
        """Return an alias of this server with its creator."""
        self._check_local_alias(alias)
        async with self._database.transaction(readonly=True) as connection:
            return await fetch_alias(connection, alias)

    async def aliases_of(self, room_id: str) -> list[str]:
        """Return the aliases of this server for the room, oldest first."""
        _check_room(room_id)
        async with self._database.transaction(readonly=True) as connection:
            return await list_aliases_of_room(connection, room_id)

    async def resolve(self, alias: str) -> tuple[str, tuple[str, ...]] | None:
        """Return the room of an alias and servers in the room, this server first if it is among them.
        Raises `PeerError` when the alias's server does not respond."""
        if not is_room_alias(alias):
            raise MatrixError("M_INVALID_PARAM", f"{alias[:255]} is not a valid room alias.", 400)
        server = domain(alias) or ""
        if server != self._server_name:
            return await self._resolve_remote(server, alias)
        existing = await self.fetch(alias)
        if existing is None:
            return None
        return existing.room_id, self._own_server_first(sorted(await self._rooms.servers_in_room(existing.room_id)))

    async def _resolve_remote(self, server: str, alias: str) -> tuple[str, tuple[str, ...]] | None:
        try:
            room_id, servers = await self._membership_client.directory(server, alias)
        except PeerRefused as refused:
            # "404: The room alias was not found."
            if refused.status == 404:
                return None
            raise
        if not is_room_id(room_id):
            raise PeerMalformed(server, "responded without a valid room id")
        return room_id, self._own_server_first(filter(is_server_name, servers))

    def _own_server_first(self, servers: Iterable[str]) -> tuple[str, ...]:
        """Return the servers, this server first."""
        return tuple(sorted(servers, key=lambda name: name != self._server_name))[:MAX_SERVERS]

    async def handle_query(self, query: Mapping[str, str], requester: str) -> dict[str, Any]:
        """Respond to `GET /query/directory` for an alias of this server. `create_missing_room` may create
        the room of an unknown alias first."""
        alias = query.get("room_alias")
        if not alias:
            raise MatrixError("M_MISSING_PARAM", "room_alias is missing.", 400)
        if not is_room_alias(alias):
            raise MatrixError("M_INVALID_PARAM", "room_alias is not a valid room alias.", 400)
        found = await self.resolve(alias) if domain(alias) == self._server_name else None
        if found is None and domain(alias) == self._server_name and await self.create_missing_room(alias, requester):
            found = await self.resolve(alias)
        if found is None:
            raise MatrixError("M_NOT_FOUND", f"The alias {alias[:255]} does not exist on this server.", 404)
        return {"room_id": found[0], "servers": list(found[1])}

    # -- published rooms --

    async def publish(self, room_id: str, listed: bool) -> None:
        """Add the room to the published rooms of this server, or remove it."""
        _check_room(room_id)
        async with self._database.transaction() as connection:
            await (publish_room if listed else unpublish_room)(connection, room_id)

    async def is_published(self, room_id: str) -> bool:
        _check_room(room_id)
        async with self._database.transaction(readonly=True) as connection:
            return await is_published(connection, room_id)

    def _check_local_alias(self, alias: str) -> None:
        if not is_room_alias(alias) or domain(alias) != self._server_name:
            raise MatrixError("M_INVALID_PARAM", f"{alias[:255]} cannot be an alias of this server.", 400)


def _check_room(room_id: str) -> None:
    if not is_room_id(room_id):
        raise MatrixError("M_INVALID_PARAM", f"{room_id[:255]} is not a valid room id.", 400)
