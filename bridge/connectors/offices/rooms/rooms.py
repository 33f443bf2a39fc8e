"""The rooms of offices. Rooms of this node's offices are created when they are first needed and found by
their aliases; rooms of other nodes' offices are joined.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from bridge.connectors.interface import PortalRoom
from bridge.connectors.offices.federated.encryption import NodeCipher
from bridge.connectors.offices.protocol.office import OfficeName, parse_office_name
from bridge.connectors.offices.rooms.office_room import (
    ALIAS_KIND,
    MEMBER,
    OFFICE,
    alias,
    alias_localpart,
    is_hashed_alias,
    parse_alias_localpart,
    room_key,
    room_request,
)
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import GhostNames
from bridge.matrix.ghosts import Ghosts
from bridge.observability.report import Report
from bridge.people.settings import PeopleSettings
from federation.matrix.errors import MatrixError, PeerError
from federation.matrix.identifiers import domain, localpart
from federation.peers.limits import Buckets, Rate
from storage.database import Database
from storage.errors import LocalError
from storage.offices.rooms import list_offices
from storage.rooms.aliases import fetch_created


async def join_remote_office(backend: MatrixBackend, office: OfficeName, names: GhostNames) -> str:
    """Return the room's id. A room that members of this node have joined before is found even if its own node
    cannot be reached. Raises `MatrixError` and `PeerError`, also if the alias leads to a room that is not an
    office of that node."""
    assert office.server is not None, "offices of this node are not joined but created"
    node_user = names.node_user
    refused: MatrixError | PeerError | None = None
    found: tuple[str, Sequence[str]] | None = None
    try:
        found = await backend.resolve_alias(alias(office.name, office.server))
    except (MatrixError, PeerError) as error:
        refused = error
    if found is None:
        joined = await _joined_before(backend, office, names)
        if joined is not None:
            return joined
        raise refused or MatrixError("M_NOT_FOUND", f"There is no such office on {office.server}.", 404)
    room_id, via = found
    if await backend.membership(room_id, node_user) != "join":
        await backend.join(room_id, node_user, via=[office.server, *via])
    if not await _is_office(backend, office, room_id):
        with suppress(MatrixError):
            await backend.leave(room_id, node_user)
        raise MatrixError("M_NOT_FOUND", f"The alias on {office.server} leads to a room that is no office.", 404)
    return room_id


async def _joined_before(backend: MatrixBackend, office: OfficeName, names: GhostNames) -> str | None:
    """A joined room in which members of this node have been. Others do not count: any user can invite the
    node into a room."""
    for room_id in await backend.joined_rooms(names.node_user):
        if await _is_office(backend, office, room_id):
            members = await backend.state(room_id, MEMBER)
            if any(names.is_ours(one.sender) for one in members):
                return room_id
    return None


async def _is_office(backend: MatrixBackend, office: OfficeName, room_id: str) -> bool:
    """Whether the room is the office of that node, according to state sent by the node itself."""
    event = await backend.state_event(room_id, OFFICE)
    return event is not None and domain(event.sender) == office.server and event.content.get("office_id") == office.name


CREATION_RATE: Final = Rate(1 / 60, 60)
"""Offices that one server can have created by looking up their aliases."""
MAX_SERVERS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomParts:
    """What the office's parts share: the Matrix backend, the database and settings."""

    backend: MatrixBackend
    database: Database
    ghosts: Ghosts
    settings: PeopleSettings
    now_ms: Callable[[], int]
    report: Report
    cipher: NodeCipher | None = None
    """Without it, offices are not shared with other nodes."""
    nodes: tuple[str, ...] = ()
    """Servers and user id patterns of other nodes whose members may join offices of this node."""

    @property
    def public_key(self) -> str:
        return "" if self.cipher is None else self.cipher.public_key

    async def room_of(self, office_id: str) -> str:
        """Create the office's room if it does not exist; join that of another node. Raises `MatrixError`."""
        await self.ghosts.ensure(self.settings.node_user)
        name = parse_office_name(office_id, ())
        if isinstance(name, OfficeName) and name.server is not None:
            return await join_remote_office(self.backend, name, self.settings.names)
        request = room_request(office_id, self.settings, self.nodes)
        return (await self.backend.create_room(request)).room_id


class OfficeRooms:
    """Looks up and creates rooms by the localparts of their aliases, without `#` and server."""

    def __init__(self, parts: RoomParts) -> None:
        self._parts = parts
        self._domain = parts.settings.names.domain
        self._created: Buckets[str] = Buckets(MAX_SERVERS)

    async def has_alias(self, localpart: str) -> bool:
        return await self._find(localpart) is not None

    async def ensure_alias(self, localpart: str) -> bool:
        """Create the alias if the office's room exists, and return whether it does. The room itself is
        created when a member joins. Raises `MatrixError`."""
        found = await self._find(localpart)
        if found is None:
            return False
        office_id, room_id = found
        node_user = self._parts.settings.names.node_user
        await self._parts.backend.create_alias(alias(office_id, self._domain), room_id, node_user)
        return True

    async def create_for_alias(self, wanted: str, server: str, now: float) -> bool:
        """Create the office of an alias that another server looks up. Return False if members of that server
        may not join offices of this node, or if it has reached the limit."""
        name = localpart(wanted)
        office_id = None if name is None else parse_alias_localpart(name)
        is_allowed = any(one == server or domain(one) == server for one in self._parts.nodes)
        if office_id is None or not is_allowed or parse_office_name(office_id, ()) != OfficeName(office_id):
            return False
        if self._created.take(server, CREATION_RATE, now) is not None:
            return False
        await self._parts.room_of(office_id)
        return True

    async def _find(self, localpart: str) -> tuple[str, str] | None:
        """The office's id and its room id."""
        node_user = self._parts.settings.names.node_user
        async with self._parts.database.transaction(readonly=True) as connection:
            parsed = parse_alias_localpart(localpart)
            candidates = await list_offices(connection) if is_hashed_alias(localpart) else [parsed]
            for office_id in candidates:
                if office_id is None or alias_localpart(office_id, self._domain) != localpart:
                    continue
                room_id = await fetch_created(connection, node_user, room_key(office_id))
                return None if room_id is None else (office_id, room_id)
        return None


async def portal_of(backend: MatrixBackend, names: GhostNames, room_id: str) -> PortalRoom | None:
    """The portal, if the room's state says that it is the room of an office of this node."""
    try:
        event = await backend.state_event(room_id, OFFICE)
    except (MatrixError, LocalError):
        return None
    content = {} if event is None else event.content
    office_id, node_id = content.get("office_id"), content.get("node")
    if not isinstance(office_id, str) or node_id != names.node_id:
        return None
    return PortalRoom(ALIAS_KIND, alias(office_id, names.domain))
