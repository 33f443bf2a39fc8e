"""What a node needs of whoever carries its Matrix end."""

from bridge.node.appservice_backend import AppserviceBackend
from bridge.node.backend import NodeBackend
from bridge.node.homeserver_backend import HomeserverBackend


def test_the_two_fit() -> None:
    """mypy compares each operation with what the protocol wants; here that none of them is missing."""
    backends: list[type[NodeBackend]] = [HomeserverBackend, AppserviceBackend]
    wanted = {name for name in vars(NodeBackend) if not name.startswith("_")}
    assert all(wanted <= set(dir(backend)) for backend in backends)
