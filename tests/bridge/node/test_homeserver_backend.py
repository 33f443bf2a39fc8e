"""A node that is a homeserver."""

from pathlib import Path

from bridge.config.config import Config
from bridge.node.backend import NodeBackend
from bridge.node.homeserver_backend import HomeserverBackend
from bridge.run import Node
from federation.matrix.capabilities import BackendCapability
from storage.connect import DatabaseAddress


async def test_homeserver_backend(tmp_path: Path, empty_address: DatabaseAddress) -> None:
    """It has local users, federates only with configured servers, and offers the commands for rooms and
    servers."""
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
