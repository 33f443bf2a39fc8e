"""The rooms of offices: of this node, which are made when they are needed first and found by their names,
and of other nodes, which are joined.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from bridge.connectors.interface import PortalRoom
from bridge.connectors.offices.federated.sealing import Sealing
from bridge.connectors.offices.protocol.office import OfficeName, office_name
from bridge.connectors.offices.rooms.office_room import (
    ALIAS_KIND,
    MEMBER,
    OFFICE,
    alias,
    alias_localpart,
    is_hashed_alias,
    parse_alias_localpart,
    request_for,
    room_key,
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


async def join_remote_office(side: MatrixBackend, office: OfficeName, names: GhostNames) -> str:
    """Gives the room's id. A room in which members of this node have been is found although its own node
    cannot be asked. Raises `MatrixError` and `PeerError`, also when what is called so is no office of that
    node."""
    assert office.server is not None, "an office of this node is made"
    node_user = names.node_user
    refused: MatrixError | PeerError | None = None
    found: tuple[str, Sequence[str]] | None = None
    try:
        found = await side.resolve_alias(alias(office.name, office.server))
    except (MatrixError, PeerError) as error:
        refused = error
    if found is None:
        known = await _known(side, office, names)
        if known is not None:
            return known
        raise refused or MatrixError("M_NOT_FOUND", f"There is no such office on {office.server}.", 404)
    room_id, via = found
    if await side.membership(room_id, node_user) != "join":
        await side.join(room_id, node_user, via=[office.server, *via])
    if not await _is_office(side, office, room_id):
        with suppress(MatrixError):
            await side.leave(room_id, node_user)
        raise MatrixError("M_NOT_FOUND", f"What {office.server} calls so is no office of its own.", 404)
    return room_id


async def _known(side: MatrixBackend, office: OfficeName, names: GhostNames) -> str | None:
    """Rooms into which anybody may have invited the node are none of them."""
    for room_id in await side.joined_rooms(names.node_user):
        if await _is_office(side, office, room_id):
            members = await side.state(room_id, MEMBER)
            if any(names.is_ours(one.sender) for one in members):
                return room_id
    return None


async def _is_office(side: MatrixBackend, office: OfficeName, room_id: str) -> bool:
    """Whether the room is the office of that node, by its own word."""
    said = await side.state_event(room_id, OFFICE)
    return (
        said is not None
        and domain(said.sender) == office.server
        and said.content.get("office_id") == office.name
    )


MADE: Final = Rate(1 / 60, 60)
"""Offices that one server has made by asking for them."""
MOST_SERVERS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomParts:
    side: MatrixBackend
    database: Database
    ghosts: Ghosts
    settings: PeopleSettings
    now_ms: Callable[[], int]
    report: Report
    sealing: Sealing | None = None
    """Without it no office is shared with other nodes."""
    nodes: tuple[str, ...] = ()
    """Whose members may be in offices of this node, beside its own."""

    @property
    def box(self) -> str:
        return "" if self.sealing is None else self.sealing.box

    async def room_of(self, office_id: str) -> str:
        """It is made when it is needed first, and that of another node is come into. Raises `MatrixError`."""
        await self.ghosts.appear(self.settings.node_user)
        name = office_name(office_id, ())
        if isinstance(name, OfficeName) and name.server is not None:
            return await join_remote_office(self.side, name, self.settings.names)
        request = request_for(office_id, self.settings, self.nodes)
        return (await self.side.create_room(request)).room_id


class OfficeRooms:
    """`localpart` is what stands between the `#` and the colon of an alias."""

    def __init__(self, parts: RoomParts) -> None:
        self._parts = parts
        self._domain = parts.settings.names.domain
        self._made: Buckets[str] = Buckets(MOST_SERVERS)

    async def has(self, localpart: str) -> bool:
        return await self._found(localpart) is not None

    async def lead(self, localpart: str) -> bool:
        """Whether there is such an office. When it returns, its alias leads to its room. None is made: that
        is done when somebody joins it. Raises `MatrixError`."""
        found = await self._found(localpart)
        if found is None:
            return False
        office_id, room_id = found
        node_user = self._parts.settings.names.node_user
        await self._parts.side.create_alias(alias(office_id, self._domain), room_id, node_user)
        return True

    async def make(self, asked: str, asked_by: str, now: float) -> bool:
        """Whether another server has this alias made by asking for it: only if its members may be in offices
        of this node, and not without end."""
        name = localpart(asked)
        office_id = None if name is None else parse_alias_localpart(name)
        may = any(one == asked_by or domain(one) == asked_by for one in self._parts.nodes)
        if office_id is None or not may or office_name(office_id, ()) != OfficeName(office_id):
            return False
        if self._made.take(asked_by, MADE, now) is not None:
            return False
        await self._parts.room_of(office_id)
        return True

    async def _found(self, localpart: str) -> tuple[str, str] | None:
        """The office and its room."""
        node_user = self._parts.settings.names.node_user
        async with self._parts.database.transaction(readonly=True) as connection:
            said = parse_alias_localpart(localpart)
            known = await list_offices(connection) if is_hashed_alias(localpart) else [said]
            for office_id in known:
                if office_id is None or alias_localpart(office_id, self._domain) != localpart:
                    continue
                room_id = await fetch_created(connection, node_user, room_key(office_id))
                return None if room_id is None else (office_id, room_id)
        return None


async def portal_of(side: MatrixBackend, names: GhostNames, room_id: str) -> PortalRoom | None:
    """What a room is, if it is that of an office of this node. It says so itself."""
    try:
        event = await side.state_event(room_id, OFFICE)
    except (MatrixError, LocalError):
        return None
    said = {} if event is None else event.content
    named, node_id = said.get("office_id"), said.get("node")
    if not isinstance(named, str) or node_id != names.node_id:
        return None
    return PortalRoom(ALIAS_KIND, alias(named, names.domain))
