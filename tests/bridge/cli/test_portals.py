"""`palaver portals` with a running node."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.config.config import Config
from bridge.run import Node
from storage.connect import DatabaseAddress
from tests.bridge.cli.conftest import Palaver, Result

ALIAS = "#agents-default:localhost:7676"


@pytest.fixture
async def node(tmp_path: Path, empty_address: DatabaseAddress) -> AsyncIterator[Node]:
    config = Config.model_validate(
        {
            "data_dir": tmp_path / "data",
            "listener": {"port": 0, "shutdown_timeout": 2},
            "metrics": {"enabled": False},
            "database": {"url": empty_address.url},
        }
    )
    node = Node(config)
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


async def run(palaver: Palaver, *words: str) -> Result:
    """Run a command beside the node."""
    return await asyncio.to_thread(palaver, *words)


async def test_portals_are_listed_and_removed(palaver: Palaver, node: Node) -> None:
    """The output has all steps. A second removal finds nothing to do."""
    room_id = node.core.rooms()["default"]
    listed = await run(palaver, "portals", "list")
    assert listed.code == 0, listed
    for part in (room_id, "agents", "nodes", "Agents of localhost:7676"):
        assert part in listed.out
    assert "continue with --after" in (await run(palaver, "portals", "list", "--limit", "1")).out

    removed = await run(palaver, "portals", "remove", ALIAS, "--yes")
    assert removed.code == 0, removed
    for part in (room_id, f"alias {ALIAS} was removed", "@palaver:localhost:7676", "left"):
        assert part in removed.out
    again = await run(palaver, "portals", "remove", room_id, "--yes")
    assert (again.code, "No user of this node is in the room" in again.out) == (0, True)


async def test_all_portals_are_removed(palaver: Palaver, node: Node) -> None:
    """Rooms of nodes are not portals and remain."""
    room_id = node.core.rooms()["default"]
    answer = await run(palaver, "portals", "remove", "--all", "--yes")
    assert (answer.code, "@palaver:localhost:7676" in answer.out) == (0, True), answer
    left = await run(palaver, "portals", "list")
    assert ("nodes" in left.out, room_id in left.out) == (True, False)
    nothing = await run(palaver, "portals", "remove", "--all", "--yes")
    assert "No agent of this node is in a room." in nothing.out


async def test_removal_needs_a_confirmation(palaver: Palaver, node: Node) -> None:
    """On a terminal the command asks for it. It also needs either a room or --all."""
    refused = await run(palaver, "portals", "remove", ALIAS)
    assert (refused.code, "--yes" in refused.err) == (1, True)
    for words in ([], [ALIAS, "--all"]):
        unclear = await run(palaver, "portals", "remove", *words, "--yes")
        assert (unclear.code, "needs one room or --all" in unclear.err) == (1, True)
    assert "default" in node.core.rooms()
