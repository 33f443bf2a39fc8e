"""The connector for offices on a node that is a homeserver."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from typing import Any

from aiohttp import web
from nacl.signing import SigningKey

from bridge.agents.routing_table import RoutingTable
from bridge.connectors.offices.connector import OfficesConnector
from bridge.connectors.offices.federated.encryption import NodeCipher
from bridge.connectors.offices.rooms.rooms import RoomParts
from bridge.connectors.offices.settings import OfficeSettings
from bridge.connectors.offices.tokens import OfficeTokens
from bridge.matrix.ghost import HomeserverGhostNames
from bridge.matrix.ghosts import Ghosts
from bridge.people.permissions import Rights
from bridge.people.settings import DEFAULT_RIGHTS, PeopleSettings
from tests.bridge.connectors.offices.clients import Running, serving
from tests.federation.nodes import Node
from tests.support.postgres import as_another_process

NOW = 1_700_000_000_000


def now_ms() -> int:
    return NOW


def room_parts(node: Node, problems: list[str], rights: Rights = DEFAULT_RIGHTS) -> RoomParts:
    def report(sentence: str, error: BaseException | None) -> None:
        problems.append(f"{sentence} {error!r}")

    settings = PeopleSettings(names=HomeserverGhostNames(node.name), rights=rights)
    routes = RoutingTable(node.name, node.database, now_ms=now_ms)
    ghosts = Ghosts(node.rooms, node.database, routes, names=settings.names)
    return RoomParts(
        backend=node.rooms,
        database=as_another_process(node.database),
        ghosts=ghosts,
        settings=settings,
        now_ms=now_ms,
        report=report,
    )


@asynccontextmanager
async def offices_of(
    node: Node, *, rights: Rights = DEFAULT_RIGHTS, is_shared: bool = False, **settings: Any
) -> AsyncIterator[tuple[Running, OfficesConnector, OfficeTokens]]:
    """With `is_shared`, offices are shared with the nodes in `nodes`."""
    problems: list[str] = []
    tokens = OfficeTokens(node.database, now_ms)
    parts = room_parts(node, problems, rights)
    if is_shared:
        key = SigningKey(sha256(node.name.encode()).digest())
        parts = replace(parts, cipher=NodeCipher(lambda: key), nodes=settings.get("nodes", ()))
    routes = RoutingTable(node.name, node.database, now_ms=now_ms)
    connector = OfficesConnector(OfficeSettings(**settings), tokens, parts, routes, report=parts.report)
    app = web.Application()
    app.add_routes(list(connector.routes()))
    async with serving(app, connector, connector.server, problems) as running:
        yield running, connector, tokens
