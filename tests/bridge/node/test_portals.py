"""Listing and removing rooms with agents, on a node that is a homeserver. For an attached node:
`tests/interop/test_appservice_operation.py`."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bridge.config.config import Config
from bridge.connectors.offices.rooms.office_room import room_request
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import HomeserverGhostNames
from bridge.node.portals import MAX_AT_ONCE, TYPES, Portals, state_key
from bridge.people.settings import PeopleSettings
from bridge.run import Node
from federation.matrix.errors import MatrixError
from federation.rooms.creation import CreateRoomRequest
from storage.connect import DatabaseAddress
from storage.errors import LocalError

HERE = "localhost:7676"
TIMEOUT = 30.0


@pytest.fixture
async def node(tmp_path: Path, empty_address: DatabaseAddress) -> AsyncIterator[Node]:
    """With one agent, which is in the agent room."""
    config = Config.model_validate(
        {
            "data_dir": tmp_path / "data",
            "listener": {"port": 0, "shutdown_timeout": 2},
            "metrics": {"enabled": False},
            "database": {"url": empty_address.url},
            "agents": [{"id": "echo", "command": ["cat"]}],
        }
    )
    node = Node(config)
    await node.start()
    try:
        room_id = node.core.rooms()["default"]
        async with asyncio.timeout(TIMEOUT):
            while await node.backend.side.membership(room_id, f"@echo:{HERE}") != "join":
                await asyncio.sleep(0.02)
        yield node
    finally:
        await node.stop()


def _portals(node: Node) -> Portals:
    return Portals(node.backend, node.core)


async def _room(node: Node, *users: str) -> str:
    side = node.backend.side
    for user in users:
        await side.ensure_user(user)
    room_id = (await side.create_room(CreateRoomRequest(creator=users[0], preset="public_chat"))).room_id
    for user in users[1:]:
        await side.join(room_id, user)
    return room_id


async def test_rooms_are_listed_by_kind(node: Node) -> None:
    """Agent rooms with their namespaces, rooms of nodes, and rooms to which people invited an agent."""
    other = await _room(node, f"@echo:{HERE}")
    found = (await _portals(node).list({}))["portals"]
    by_kind = {one["kind"]: one for one in found}
    agents = by_kind["agents"]
    assert (agents["namespace"], agents["members"], agents["ghosts"]) == ("default", 2, 2)
    assert agents["alias"] == f"#agents-default:{HERE}"
    assert agents["name"] == f"Agents of {HERE}"
    assert by_kind["other"]["room_id"] == other
    assert {"nodes", "agents", "other"} == set(by_kind)
    seen, after = [], None
    while True:
        page = await _portals(node).list({"limit": 1, "after": after})
        seen += page["portals"]
        after = page["next"]
        if after is None:
            break
    assert seen == found


async def test_office_room_is_removed(node: Node) -> None:
    """Its alias is removed, and after the next start the office has another room."""
    side = node.backend.side
    node_user = f"@palaver:{HERE}"
    settings = PeopleSettings(HomeserverGhostNames(HERE), is_listed=True)
    room_id = (await side.create_room(room_request("build-7", settings))).room_id
    await side.ensure_user(f"@build-7/bench:{HERE}")
    await side.join(room_id, f"@build-7/bench:{HERE}")
    name = f"#office-build-7:{HERE}"
    listed = {one["room_id"]: one for one in (await _portals(node).list({}))["portals"]}
    assert (listed[room_id]["kind"], listed[room_id]["alias"], listed[room_id]["ghosts"]) == ("office", name, 2)
    removed = await _portals(node).remove({"room": name})
    assert [step["done"] for step in removed["steps"]] == [
        "it was removed from the public room directory",
        f"the alias {name} was removed",
    ]
    assert [user["user_id"] for user in removed["users"]] == [f"@build-7/bench:{HERE}", node_user]
    assert await side.resolve_alias(name) is None
    again = await side.create_room(room_request("build-7", settings))
    assert (again.is_new, again.room_id != room_id) == (True, True)


async def test_agent_room_is_removed(node: Node) -> None:
    """Alias, directory entry and bridge information are removed, and all local users leave, the node's own
    user last. Repeating it changes nothing; the next start creates another room."""
    side, room_id = node.backend.side, node.core.rooms()["default"]
    portals, key = _portals(node), state_key(HERE, "default")
    await side.set_state(room_id, f"@palaver:{HERE}", TYPES[0], {"bridgebot": "a"}, key)
    looked = await portals.remove({"room": "default", "look": True})
    assert (looked["room_id"], looked["steps"], len(looked["users"])) == (room_id, [], 2)
    assert await side.membership(room_id, f"@echo:{HERE}") == "join"

    removed = await portals.remove({"room": f"#agents-default:{HERE}"})
    assert [one["problem"] for one in (*removed["steps"], *removed["users"])] == [None] * 5
    assert [one["user_id"] for one in removed["users"]] == [f"@echo:{HERE}", f"@palaver:{HERE}"]
    assert removed["next"] is None
    assert await side.resolve_alias(f"#agents-default:{HERE}") is None
    assert await side.members(room_id) == []
    sign = await side.state_event(room_id, TYPES[0], key)
    assert sign is not None
    assert sign.content == {}

    again = await portals.remove({"room": room_id})
    assert (again["steps"], again["users"], again["next"]) == ([], [], None)
    assert node.core.rooms() == {}
    assert await node.core.provide_room("default") is False
    with pytest.raises(LocalError, match="There is no room"):
        await portals.remove({"room": "default"})


async def test_interrupted_removal_is_completed(node: Node) -> None:
    """After a kill the room's state still names its namespace."""
    side, room_id = node.backend.side, node.core.rooms()["default"]
    node.core.release_room("default")
    removed = await _portals(node).remove({"room": room_id})
    assert removed["namespace"] == "default"
    assert await side.resolve_alias(f"#agents-default:{HERE}") is None


async def test_many_users_leave_in_pages(node: Node) -> None:
    """And the node's own user last."""
    users = [f"@agent-{number:02}:{HERE}" for number in range(MAX_AT_ONCE + 5)]
    room_id = await _room(node, f"@palaver:{HERE}", *users)
    left: list[str] = []
    after: str | None = None
    for _ in range(2):
        answer = await _portals(node).remove({"room": room_id, "after": after})
        left += [one["user_id"] for one in answer["users"]]
        after = answer["next"]
    assert left == [*users, f"@palaver:{HERE}"]
    assert after is None
    assert await node.backend.side.members(room_id) == []


class _Sticky:
    """A backend on which one user cannot leave, and on which aliases cannot be removed if `keeps_aliases` is
    set."""

    def __init__(self, side: MatrixBackend, user: str = "", *, keeps_aliases: bool = False) -> None:
        self._side = side
        self._user = user
        self._keeps_aliases = keeps_aliases

    def __getattr__(self, name: str) -> Any:
        return getattr(self._side, name)

    async def leave(self, room_id: str, user: str) -> None:
        if user == self._user:
            raise MatrixError("M_UNKNOWN", "It failed.", 500)
        await self._side.leave(room_id, user)

    async def remove_alias(self, alias: str) -> None:
        if self._keeps_aliases:
            raise MatrixError("M_FORBIDDEN", "You may not.", 403)
        await self._side.remove_alias(alias)


class _Carried:
    def __init__(self, node: Node, user: str = "", *, keeps_aliases: bool = False) -> None:
        self._backend = node.backend
        self.side = _Sticky(node.backend.side, user, keeps_aliases=keeps_aliases)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)


async def test_failed_leave_does_not_stop_others(node: Node) -> None:
    """It is reported, and the next call retries it."""
    users = [f"@{name}:{HERE}" for name in ("a", "b", "c")]
    room_id = await _room(node, *users)
    carried: Any = _Carried(node, users[1])
    removed = await Portals(carried, node.core).remove({"room": room_id})
    problems = {one["user_id"]: one["problem"] for one in removed["users"]}
    assert problems == {users[0]: None, users[1]: "It failed. (M_UNKNOWN)", users[2]: None}
    (left,) = (await _portals(node).remove({"room": room_id}))["users"]
    assert (left["user_id"], left["problem"]) == (users[1], None)


async def test_an_alias_that_cannot_be_removed_keeps_the_room(node: Node) -> None:
    """It is reported, nobody leaves, and the next call retries it. Without that, the room could never be
    created again: its alias would be taken."""
    room_id = node.core.rooms()["default"]
    carried: Any = _Carried(node, keeps_aliases=True)
    for _ in range(2):
        removed = await Portals(carried, node.core).remove({"room": room_id})
        assert "You may not. (M_FORBIDDEN)" in [step["problem"] for step in removed["steps"]]
        assert (removed["users"], removed["next"]) == ([], None)
    assert await node.backend.side.membership(room_id, f"@palaver:{HERE}") == "join"
    removed = await _portals(node).remove({"room": room_id})
    assert all(step["problem"] is None for step in removed["steps"])
    assert [user["user_id"] for user in removed["users"]] == [f"@echo:{HERE}", f"@palaver:{HERE}"]


async def test_unremovable_rooms(node: Node) -> None:
    """Rooms in which nodes exchange agents, and unknown rooms."""
    listed = (await _portals(node).list({}))["portals"]
    of_nodes = [one["room_id"] for one in listed if one["kind"] == "nodes"]
    for room in (*of_nodes, "#nowhere:localhost:7676", "nothing", "#", "!"):
        with pytest.raises(LocalError) as refused:
            await _portals(node).remove({"room": room})
        assert refused.value.advice
    assert of_nodes
