"""Nodes that serve queries for profiles, aliases, published rooms and spaces, and a pair of them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from federation.client.requests import request_target
from federation.events.room_event import NewEvent
from federation.http.services import QueryServices
from federation.matrix.room_version import ROOM_VERSIONS
from tests.federation.http.membership_pair import Pair
from tests.federation.nodes import Node, Nodes
from tests.support.postgres import Server


def queries_of(node: Node) -> QueryServices:
    """Return the query services of a node."""
    here = node.homeserver
    return QueryServices(here.authenticator, here.profiles, here.directory, here.public_rooms, here.spaces)


@dataclass
class QueryPair(Pair):
    """`queries` are the query services of the tested node."""

    queries: QueryServices

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return await self.asking.client.request("POST", self.asked.name, request_target(path), body)


@asynccontextmanager
async def query_pair(server: Server, template: str, *, listed: bool = True) -> AsyncIterator[QueryPair]:
    async with AsyncExitStack() as stack:
        nodes = Nodes(server, template, stack, shows_public_rooms=listed)
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
    """Send state events: `name={"name": "Kitchen"}`."""
    for name, content in contents.items():
        await node.graph.send_event(room_id, f"m.room.{name}", content, user, "")
