"""A node that carries its own rooms."""

from pathlib import Path

from bridge.config.config import Config
from bridge.node.backend import Carrier
from bridge.node.homeserver_backend import CarriedByHomeserver
from bridge.run import Node
from federation.matrix.capabilities import SideCapability
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
        carrier: Carrier = node.carrier
        assert isinstance(carrier, CarriedByHomeserver)
        assert carrier.side.server_name == "localhost:7676"
        assert carrier.side.capabilities == frozenset(SideCapability)
        assert (carrier.admits("their.server"), carrier.admits("other.server")) == (True, False)
        assert {"rooms-list", "queue", "audit", "peers-add"} <= set(carrier.commands())
        carrier.reload()
    finally:
        await node.stop()
    await carrier.close()
