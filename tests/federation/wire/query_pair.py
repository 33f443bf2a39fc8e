"""Nodes that answer questions about users, aliases, published rooms and spaces; and a pair of them, one of
which is asked by the other."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
from aiohttp import web

from federation.admission import LOOPBACK, Rules
from federation.request_target import request_target
from federation.room_version import ROOM_VERSIONS
from federation.server_keys import OwnKeys, published
from federation.service.directory import Directory
from federation.service.handshakes import Handshakes
from federation.service.profiles import Profiles
from federation.service.public_rooms import PublicRooms
from federation.service.room_ports import NewEvent
from federation.service.room_summaries import RoomSummaries
from federation.service.space_hierarchy import Spaces
from federation.wire.app import make_app
from federation.wire.endpoints import hierarchy, public_rooms, query_directory, query_profile
from federation.wire.homeserver_routes import serve
from federation.wire.limits import Limits
from federation.wire.node import Node as WireNode
from federation.wire.node import Readiness
from federation.wire.query_services import QUERIES, QueryServices
from tests.federation.service.nodes import Node, Nodes, now_ms
from tests.federation.wire.membership_pair import Pair
from tests.support.postgres import Server

ENDPOINTS = (hierarchy, public_rooms, query_directory, query_profile)


class QueryNodes(Nodes):
    """Whole nodes that serve these endpoints besides the others."""

    listed = True
    """Whether they show their lists of rooms to each other."""

    def _app(self, node: Node, keys: OwnKeys) -> web.Application:
        def document() -> bytes:
            return orjson.dumps(published(node.name, keys, now_ms()))

        app = make_app(WireNode(document, Readiness, "test", Rules(LOOPBACK)), Limits())
        serve(app, node.homeserver)
        services = queries_of(node, listed=self.listed)
        self._stack.push_async_callback(services.profiles.close)
        self._stack.push_async_callback(services.spaces.close)
        app[QUERIES] = services
        for module in ENDPOINTS:
            app.add_routes(module.ROUTES)
        return app


def queries_of(node: Node, *, listed: bool = True) -> QueryServices:
    """Of a node; whoever makes them closes what has to be closed."""
    name, database, client, rooms = node.name, node.database, node.client, node.graph
    summaries = RoomSummaries(name, database, rooms)
    return QueryServices(
        node.homeserver.authenticator,
        Profiles(name, database, client, rooms, now_ms=now_ms),
        Directory(name, database, Handshakes(client), rooms, now_ms=now_ms),
        PublicRooms(database, client, summaries, public_rooms_over_federation=listed),
        Spaces(name, database, client, rooms, summaries, now_ms=now_ms),
    )


@dataclass
class QueryPair(Pair):
    """`queries` are services of the node that is asked, as its endpoints have them."""

    queries: QueryServices

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return await self.asking.client.request("POST", self.asked.name, request_target(path), body)


@asynccontextmanager
async def query_pair(server: Server, template: str, *, listed: bool = True) -> AsyncIterator[QueryPair]:
    async with AsyncExitStack() as stack:
        nodes = QueryNodes(server, template, stack)
        nodes.listed = listed
        asked, asking = await nodes.start("asked.test", "asking.test")
        yield QueryPair(asked, asking, queries_of(asked))


async def create_space(node: Node, creator: str, join_rule: str = "public") -> str:
    events = [
        NewEvent("m.room.create", creator, {"type": "m.space"}, ""),
        NewEvent("m.room.member", creator, {"membership": "join"}, creator),
        NewEvent("m.room.power_levels", creator, {"users": {}}, ""),
        NewEvent("m.room.join_rules", creator, {"join_rule": join_rule}, ""),
    ]
    return (await node.graph.create_room(ROOM_VERSIONS["12"], events))[0].room_id


async def put_child(node: Node, space: str, room_id: str, user: str, **content: Any) -> None:
    said = {"via": [node.name], **content}
    await node.graph.send_event(space, "m.space.child", said, user, room_id)


async def furnish(node: Node, room_id: str, user: str, **contents: Mapping[str, Any]) -> None:
    """Put state events into a room: `name={"name": "Kitchen"}`."""
    for name, content in contents.items():
        await node.graph.send_event(room_id, f"m.room.{name}", content, user, "")
