"""Coming into the room of an office of another node."""

from collections.abc import AsyncIterator

import pytest

from bridge.connectors.offices.protocol.office import OfficeName
from bridge.connectors.offices.rooms.office_room import MEMBER, request_for
from bridge.connectors.offices.rooms.rooms import join_remote_office
from bridge.matrix.ghost import HomeserverGhostNames
from bridge.people.settings import PeopleSettings
from federation.matrix.errors import MatrixError, PeerError
from federation.rooms.creation import CreateRoomRequest, InitialState
from tests.federation.nodes import Node, nodes
from tests.support.postgres import Server

HOME, AWAY = "home.test", "away.test"
OFFICE = OfficeName("kitchen", HOME)
NAMES = HomeserverGhostNames(AWAY)


@pytest.fixture
async def pair(postgres_server: Server, migrated_template: str) -> AsyncIterator[tuple[Node, Node]]:
    async with nodes(postgres_server, migrated_template) as running:
        home, away = await running.start(HOME, AWAY)
        for node in (home, away):
            await node.rooms.ensure_user(f"@palaver:{node.name}")
        yield home, away


async def office(home: Node) -> str:
    settings = PeopleSettings(HomeserverGhostNames(HOME))
    return (await home.rooms.create_room(request_for("kitchen", settings, (AWAY,)))).room_id


async def test_by_its_name(pair: tuple[Node, Node]) -> None:
    """Twice is as good as once."""
    home, away = pair
    room_id = await office(home)
    for _ in range(2):
        assert await join_remote_office(away.rooms, OFFICE, NAMES) == room_id
    assert await away.rooms.membership(room_id, NAMES.node_user) == "join"


async def test_one_that_was_known_while_its_node_is_away(pair: tuple[Node, Node]) -> None:
    """If members of ours have been there: into any other room somebody may have invited the node."""
    home, away = pair
    room_id = await office(home)
    await join_remote_office(away.rooms, OFFICE, NAMES)
    home.is_down = True
    with pytest.raises((MatrixError, PeerError)):
        await join_remote_office(away.rooms, OFFICE, NAMES)
    await away.rooms.set_state(room_id, NAMES.node_user, MEMBER, {"name": "x"}, NAMES.node_user)
    assert await join_remote_office(away.rooms, OFFICE, NAMES) == room_id


async def test_what_is_not_there(pair: tuple[Node, Node]) -> None:
    with pytest.raises(MatrixError, match="no such office"):
        await join_remote_office(pair[1].rooms, OFFICE, NAMES)


async def test_another_room_of_that_name(pair: tuple[Node, Node]) -> None:
    """It says in its state which office it is; a room that does not is left again."""
    home, away = pair
    await home.rooms.create_room(
        CreateRoomRequest(
            creator=f"@palaver:{HOME}",
            preset="public_chat",
            alias="office-kitchen",
            initial_state=(InitialState("io.a2c.office", {"office_id": "cellar", "members": [AWAY]}),),
        )
    )
    with pytest.raises(MatrixError, match="no office of its own"):
        await join_remote_office(away.rooms, OFFICE, NAMES)
    assert await away.rooms.joined_rooms(NAMES.node_user) == []
