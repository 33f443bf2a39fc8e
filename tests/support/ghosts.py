"""The users of a node in tests, with their faces."""

from typing import Any

from bridge.ghost_names import HomeserverNames
from bridge.service.ghosts import Ghosts
from bridge.service.routing_table import RoutingTable
from tests.federation.service.living.homes import Home
from tests.federation.service.nodes import Node
from tests.support.agents import Clock


def ghosts_of(node: Node | Home, routes: RoutingTable | None = None, **more: Any) -> Ghosts:
    """Without a routing table nothing is known of any agent."""
    known = routes or RoutingTable(node.name, node.database, now_ms=Clock())
    return Ghosts(
        node.homeserver.rooms, node.database, known, **{"names": HomeserverNames(node.name), **more}
    )
