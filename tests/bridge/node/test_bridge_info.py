"""Publishing bridge information."""

from collections.abc import AsyncIterator

import pytest

from bridge.matrix.ghost import HomeserverGhostNames
from bridge.node.portals import TYPES, BridgeInfo, state_key
from federation.rooms.creation import CreateRoomRequest
from storage.database import Database
from tests.federation.local_users.homes import Home, homeserver_without_port


@pytest.fixture
async def home(database: Database) -> AsyncIterator[Home]:
    async with homeserver_without_port("here.test", database) as home:
        yield home


async def test_publish_and_clear(home: Home) -> None:
    """Under both event types, once; clearing is idempotent."""
    rooms, names, reported = home.rooms, HomeserverGhostNames(home.name), list[str]()
    await rooms.ensure_user(names.node_user)
    room_id = (await rooms.create_room(CreateRoomRequest(creator=names.node_user))).room_id
    signs = BridgeInfo(rooms, names, lambda sentence, error: reported.append(sentence))
    key = state_key(home.name, "default")
    seen = []
    for _ in range(2):
        await signs.publish({"default": room_id})
        events = [await rooms.state_event(room_id, type_, key) for type_ in TYPES]
        seen.append([event.event_id for event in events if event is not None])
        assert all(event is not None and event.content["bridgebot"] == names.node_user for event in events)
    assert seen[0] == seen[1]
    for _ in range(2):
        await signs.clear("default", room_id)
        for type_ in TYPES:
            event = await rooms.state_event(room_id, type_, key)
            assert event is not None
            assert event.content == {}
    assert reported == []


async def test_failure_in_one_room_is_reported(home: Home) -> None:
    """And does not affect others."""
    rooms, names, reported = home.rooms, HomeserverGhostNames(home.name), list[str]()
    await rooms.ensure_user(names.node_user)
    room_id = (await rooms.create_room(CreateRoomRequest(creator=names.node_user))).room_id
    signs = BridgeInfo(rooms, names, lambda sentence, error: reported.append(sentence))
    await signs.publish({"gone": f"!nowhere:{home.name}", "default": room_id})
    assert reported == [f"Failed to publish the bridge information in !nowhere:{home.name}."]
    assert await rooms.state_event(room_id, TYPES[0], state_key(home.name, "default")) is not None
