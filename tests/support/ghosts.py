"""The ghosts of a node in tests, with their profiles."""

from typing import Any

from bridge.agents.routing_table import RoutingTable
from bridge.matrix.ghost import HomeserverGhostNames
from bridge.matrix.ghosts import Ghosts
from tests.federation.local_users.homes import Home
from tests.federation.nodes import Node
from tests.support.agents import Clock


def ghosts_of(node: Node | Home, routes: RoutingTable | None = None, **more: Any) -> Ghosts:
    """Return the ghosts of a node. Without a routing table no agent is known."""
    known = routes or RoutingTable(node.name, node.database, now_ms=Clock())
    return Ghosts(
        node.homeserver.local_users, node.database, known, **{"names": HomeserverGhostNames(node.name), **more}
    )
