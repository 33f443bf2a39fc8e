"""Comes into the room of an office of another node."""

from collections.abc import Sequence
from contextlib import suppress

from bridge.connectors.offices.office_name import OfficeName
from bridge.connectors.offices.office_room import MEMBER, OFFICE, alias
from bridge.ghost_names import GhostNames
from bridge.matrix_side import MatrixSide
from federation.errors import MatrixError, PeerError
from federation.identifiers import domain


async def come_into(side: MatrixSide, office: OfficeName, names: GhostNames) -> str:
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
    if not await _is(side, office, room_id):
        with suppress(MatrixError):
            await side.leave(room_id, node_user)
        raise MatrixError("M_NOT_FOUND", f"What {office.server} calls so is no office of its own.", 404)
    return room_id


async def _known(side: MatrixSide, office: OfficeName, names: GhostNames) -> str | None:
    """Rooms into which anybody may have invited the node are none of them."""
    for room_id in await side.joined_rooms(names.node_user):
        if await _is(side, office, room_id):
            members = await side.state(room_id, MEMBER)
            if any(names.is_ours(one.sender) for one in members):
                return room_id
    return None


async def _is(side: MatrixSide, office: OfficeName, room_id: str) -> bool:
    """Whether the room is the office of that node, by its own word."""
    said = await side.state_event(room_id, OFFICE)
    return (
        said is not None
        and domain(said.sender) == office.server
        and said.content.get("office_id") == office.name
    )
