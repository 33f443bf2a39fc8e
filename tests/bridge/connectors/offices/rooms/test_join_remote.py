"""Joining the room of another node's office."""

from collections.abc import AsyncIterator

import pytest

from bridge.connectors.offices.protocol.office import OfficeName
from bridge.connectors.offices.rooms.office_room import MEMBER, room_request
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
    return (await home.rooms.create_room(room_request("kitchen", settings, (AWAY,)))).room_id


async def test_an_office_is_joined_by_its_alias(pair: tuple[Node, Node]) -> None:
    """Repeating it has no effect."""
    home, away = pair
    room_id = await office(home)
    for _ in range(2):
        assert await join_remote_office(away.rooms, OFFICE, NAMES) == room_id
    assert await away.rooms.membership(room_id, NAMES.node_user) == "join"


async def test_a_joined_office_is_found_while_its_node_is_offline(pair: tuple[Node, Node]) -> None:
    """If local members have been in it. Other rooms do not count: any user can invite the node."""
    home, away = pair
    room_id = await office(home)
    await join_remote_office(away.rooms, OFFICE, NAMES)
    home.is_down = True
    with pytest.raises((MatrixError, PeerError)):
        await join_remote_office(away.rooms, OFFICE, NAMES)
    await away.rooms.set_state(room_id, NAMES.node_user, MEMBER, {"name": "x"}, NAMES.node_user)
    assert await join_remote_office(away.rooms, OFFICE, NAMES) == room_id


async def test_an_unknown_office(pair: tuple[Node, Node]) -> None:
    with pytest.raises(MatrixError, match="no such office"):
        await join_remote_office(pair[1].rooms, OFFICE, NAMES)


async def test_an_alias_of_another_room(pair: tuple[Node, Node]) -> None:
    """A room whose state names another office is left again."""
    home, away = pair
    await home.rooms.create_room(
        CreateRoomRequest(
            creator=f"@palaver:{HOME}",
            preset="public_chat",
            alias="office-kitchen",
            initial_state=(InitialState("io.a2c.office", {"office_id": "cellar", "members": [AWAY]}),),
        )
    )
    with pytest.raises(MatrixError, match="room that is no office"):
        await join_remote_office(away.rooms, OFFICE, NAMES)
    assert await away.rooms.joined_rooms(NAMES.node_user) == []
