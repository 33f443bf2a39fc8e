"""A node that carries its own rooms."""

from pathlib import Path

from bridge.config.config import Config
from bridge.node.backend import NodeBackend
from bridge.node.homeserver_backend import HomeserverBackend
from bridge.run import Node
from federation.matrix.capabilities import BackendCapability
from storage.connect import DatabaseAddress


async def test_it_carries_all_that_a_homeserver_can(tmp_path: Path, empty_address: DatabaseAddress) -> None:
    """Its users live on it, it speaks with the servers of its configuration alone, and the commands for rooms
    and for other servers work on it."""
    config = Config.model_validate(
        {
            "data_dir": tmp_path / "data",
            "listener": {"port": 0, "shutdown_timeout": 2},
            "metrics": {"enabled": False},
            "database": {"url": empty_address.url},
            "peers": [{"server_name": "their.server"}],
        }
    )
    node = Node(config)
    await node.start()
    try:
        backend: NodeBackend = node.backend
        assert isinstance(backend, HomeserverBackend)
        assert backend.side.server_name == "localhost:7676"
        assert backend.side.capabilities == frozenset(BackendCapability)
        assert (backend.admits("their.server"), backend.admits("other.server")) == (True, False)
        assert {"rooms-list", "queue", "audit", "peers-add"} <= set(backend.commands())
        backend.reload()
    finally:
        await node.stop()
    await backend.close()
