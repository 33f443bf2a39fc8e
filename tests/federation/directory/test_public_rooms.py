"""The room directories of this server and of others."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from federation.client.errors import PeerMalformed, PeerRefused
from federation.directory.public_rooms import PublicRooms, RoomsQuery, from_body, from_query
from federation.directory.room_summary import RoomSummaries
from federation.matrix.errors import MatrixError
from storage.rooms.aliases import publish_room
from tests.federation.http.query_pair import furnish
from tests.federation.nodes import Node, nodes
from tests.support.loopback_server import LoopbackServer
from tests.support.neighbourhood import Neighbourhood, answering
from tests.support.postgres import Server

PEER = "peer.test"


@pytest.fixture
async def here(postgres_server: Server, migrated_template: str) -> AsyncIterator[Node]:
    async with nodes(postgres_server, migrated_template) as running:
        (made,) = await running.start("here.test")
        yield made


def list_of(node: Node, **how: bool) -> PublicRooms:
    return PublicRooms(node.database, node.client, RoomSummaries(node.name, node.database, node.graph), **how)


async def published(node: Node, room_id: str) -> None:
    async with node.database.transaction() as connection:
        await publish_room(connection, room_id)


def ids(answer: dict[str, Any]) -> list[str]:
    return [entry["room_id"] for entry in answer["chunk"]]


async def test_only_accessible_published_rooms_are_listed(here: Node) -> None:
    """Rooms with local users; the largest first."""
    alice, bob = here.user("alice"), here.user("bob")
    small, large = [await here.create("12", alice) for _ in range(2)]
    await here.membership.join(large, bob)
    closed, unpublished = await here.create("12", alice, "invite"), await here.create("12", alice)
    left = await here.create("12", alice)
    readable = await here.create("12", alice, "invite")
    await furnish(here, readable, alice, history_visibility={"history_visibility": "world_readable"})
    for room_id in (small, large, closed, left, readable, "!gone:here.test"):
        await published(here, room_id)
    rooms = list_of(here)
    assert len(ids(await rooms.local(RoomsQuery()))) == 4
    await here.membership.leave(left, alice)
    listed = ids(await rooms.local(RoomsQuery()))
    assert listed[0] == large
    assert set(listed) == {large, small, readable}
    assert unpublished not in listed


async def test_rooms_that_exclude_a_server_are_not_listed_for_it(here: Node) -> None:
    """They are listed for local users."""
    alice = here.user("alice")
    room_id = await here.create("12", alice)
    await published(here, room_id)
    rooms = list_of(here)
    assert ids(await rooms.handle_query("there.test", RoomsQuery())) == [room_id]
    await furnish(here, room_id, alice, server_acl={"allow": ["*"], "deny": ["there.*"]})
    assert ids(await rooms.handle_query("there.test", RoomsQuery())) == []
    assert ids(await rooms.handle_query("other.test", RoomsQuery())) == [room_id]
    assert ids(await rooms.local(RoomsQuery())) == [room_id]


async def test_the_directory_can_be_closed_to_other_servers(here: Node) -> None:
    """By a setting."""
    rooms = list_of(here, public_rooms_over_federation=False)
    with pytest.raises(MatrixError, match="403 M_FORBIDDEN"):
        await rooms.handle_query("there.test", RoomsQuery())
    assert ids(await rooms.local(RoomsQuery())) == []


async def asking(neighbourhood: Neighbourhood, here: Node, handler: Any) -> tuple[PublicRooms, LoopbackServer]:
    server = await neighbourhood.server(handler, PEER)
    neighbourhood.names.add(f"_matrix-fed._tcp.{PEER}", "SRV", f"0 0 {server.port} {PEER}.")
    client = neighbourhood.reach().client
    summaries = RoomSummaries(here.name, here.database, here.graph)
    return PublicRooms(here.database, client, summaries), server


async def test_the_directory_of_another_server_is_queried(neighbourhood: Neighbourhood, here: Node) -> None:
    """With GET, or with POST for a search."""
    answer = {"chunk": [{"room_id": "!r:peer.test", "num_joined_members": 3}, {}], "next_batch": "theirs"}
    rooms, server = await asking(neighbourhood, here, answering(answer))
    read = await rooms.remote(PEER, from_query({"limit": "7", "since": "x"}, remote=True))
    assert read == {
        "chunk": [
            {"room_id": "!r:peer.test", "num_joined_members": 3, "world_readable": False, "guest_can_join": False}
        ],
        "next_batch": "theirs",
    }
    assert (server.requests[0].method, dict(server.requests[0].query)) == ("GET", {"limit": "7", "since": "x"})
    search = from_body({"filter": {"generic_search_term": "soup"}}, remote=True)
    assert await rooms.remote(PEER, search) == read
    assert server.requests[1].method == "POST"
    assert json.loads(server.bodies[1]) == {"limit": 100, "filter": {"generic_search_term": "soup"}}


@pytest.mark.parametrize(
    ("content", "status", "error"),
    [({}, 200, PeerMalformed), ({"chunk": 5}, 200, PeerMalformed), ({"errcode": "M_FORBIDDEN"}, 403, PeerRefused)],
)
async def test_invalid_responses_are_peer_errors(
    neighbourhood: Neighbourhood, here: Node, content: Any, status: int, error: type[Exception]
) -> None:
    """They name the peer."""
    rooms, _ = await asking(neighbourhood, here, answering(content, status))
    with pytest.raises(error):
        await rooms.remote(PEER, RoomsQuery())
