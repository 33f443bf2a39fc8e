"""The life of a node, in this process: order, failure in the middle, signals."""

import asyncio
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bridge.config.config import Config
from bridge.run import Node, run
from storage.connect import DatabaseAddress
from storage.errors import LocalError


def _config(directory: Path, address: DatabaseAddress, **more: Any) -> Config:
    return Config.model_validate(
        {
            "data_dir": directory / "data",
            "listener": {"port": 0, "shutdown_timeout": 2},
            "metrics": {"port": 0},
            "database": {"url": address.url},
            **more,
        }
    )


async def test_a_started_node_describes_itself(tmp_path: Path, empty_address: DatabaseAddress) -> None:
    """And a stopped one has let go of everything: the same again works at once."""
    config = _config(tmp_path, empty_address)
    for _ in range(2):
        node = Node(config)
        await node.start()
        summary = node.summary()
        assert summary["server_name"] == "localhost:7676"
        assert summary["addresses"][0].startswith("127.0.0.1:")
        assert summary["metrics"].startswith("http://127.0.0.1:")
        assert node.reload() is None
        await node.stop()


async def test_a_failure_in_the_middle_undoes_what_came_before(tmp_path: Path, empty_address: DatabaseAddress) -> None:
    """The port was open already; nothing may hold it, or the directory, afterwards."""
    good = _config(tmp_path, empty_address)
    bad = _config(tmp_path, empty_address.with_database("absent"))
    with pytest.raises(LocalError, match="no database called absent"):
        await Node(bad).start()
    node = Node(good)
    await node.start()
    await node.stop()


async def test_two_nodes_fit_in_one_process(tmp_path: Path, empty_address: DatabaseAddress) -> None:
    """Nothing is global; but one database belongs to one server name."""
    one = Node(_config(tmp_path / "one", empty_address))
    await one.start()
    two = Node(_config(tmp_path / "two", empty_address, server_name="localhost:7000"))
    try:
        with pytest.raises(LocalError, match="localhost:7676"):
            await two.start()
    finally:
        await one.stop()


async def test_a_signal_ends_the_run(tmp_path: Path, empty_address: DatabaseAddress) -> None:
    """SIGHUP reads the certificate again and goes on, SIGTERM stops."""
    announced: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
    steps: list[str] = []
    running = asyncio.create_task(
        run(_config(tmp_path, empty_address), step=steps.append, announce=announced.put_nowait)
    )
    try:
        assert (await announced.get())["certificate"] == "development"
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        await running
    finally:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
    assert steps == ["opening the port", "starting the database", "starting the agents"]
