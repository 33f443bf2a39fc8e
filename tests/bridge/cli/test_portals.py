"""`palaver portals`, from the words to the node and back."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bridge.config.config import Config
from bridge.run import Node
from storage.connect import DatabaseAddress
from tests.bridge.cli.conftest import Palaver, Said

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


async def told(palaver: Palaver, *words: str) -> Said:
    """Beside the node, as a process of its own would be."""
    return await asyncio.to_thread(palaver, *words)


async def test_they_are_listed_and_removed(palaver: Palaver, node: Node) -> None:
    """With what each is; removed, all is told that was done, and nothing is left to do then."""
    room_id = node.core.rooms()["default"]
    listed = await told(palaver, "portals", "list")
    assert listed.code == 0, listed
    for part in (room_id, "agents", "nodes", "Agents of localhost:7676"):
        assert part in listed.out
    assert "go on with --after" in (await told(palaver, "portals", "list", "--limit", "1")).out

    removed = await told(palaver, "portals", "remove", ALIAS, "--yes")
    assert removed.code == 0, removed
    for part in (room_id, f"{ALIAS} leads nowhere", "@palaver:localhost:7676", "left"):
        assert part in removed.out
    again = await told(palaver, "portals", "remove", room_id, "--yes")
    assert (again.code, "Nobody of this node is there any more" in again.out) == (0, True)


async def test_all_of_them_are_removed(palaver: Palaver, node: Node) -> None:
    """But for the rooms of nodes, which are none."""
    room_id = node.core.rooms()["default"]
    answer = await told(palaver, "portals", "remove", "--all", "--yes")
    assert (answer.code, "@palaver:localhost:7676" in answer.out) == (0, True), answer
    left = await told(palaver, "portals", "list")
    assert ("nodes" in left.out, room_id in left.out) == (True, False)
    nothing = await told(palaver, "portals", "remove", "--all", "--yes")
    assert "No agent of this node is in any room." in nothing.out


async def test_nothing_is_removed_without_a_yes(palaver: Palaver, node: Node) -> None:
    """Asked for on a terminal, where there is one; and it has to be clear what is meant."""
    refused = await told(palaver, "portals", "remove", ALIAS)
    assert (refused.code, "--yes" in refused.err) == (1, True)
    for words in ([], [ALIAS, "--all"]):
        unclear = await told(palaver, "portals", "remove", *words, "--yes")
        assert (unclear.code, "not clear which room" in unclear.err) == (1, True)
    assert "default" in node.core.rooms()
