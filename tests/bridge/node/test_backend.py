"""The interface of a node's backend."""

from bridge.node.appservice_backend import AppserviceBackend
from bridge.node.backend import NodeBackend
from bridge.node.homeserver_backend import HomeserverBackend


def test_backends_implement_the_protocol() -> None:
    """mypy compares the signatures; this test finds missing operations."""
    backends: list[type[NodeBackend]] = [HomeserverBackend, AppserviceBackend]
    wanted = {name for name in vars(NodeBackend) if not name.startswith("_")}
    assert all(wanted <= set(dir(backend)) for backend in backends)
