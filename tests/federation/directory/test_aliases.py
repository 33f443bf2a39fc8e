"""Local and remote aliases, and published rooms."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from federation.client.errors import PeerMalformed, PeerRefused
from federation.directory.aliases import MAX_SERVERS, Directory
from federation.matrix.errors import MatrixError, PeerError
from federation.memberships.outgoing import LocalAlias, MembershipClient
from storage.database import Database
from storage.rooms.aliases import Alias
from tests.support.graph import HERE, US, Graph, graph_on, join
from tests.support.neighbourhood import Neighbourhood
from tests.support.rooms import BOB, Room, public_room

PEER = "peer.test"
KITCHEN = f"#kitchen:{HERE}"
NOW = 5


class Peer:
    """A server that sends the same response to each request."""

    answer: tuple[Any, int] = ({"room_id": "!room:a.example", "servers": ["z.example", "a.example"]}, 200)

    async def __call__(self, request: web.Request) -> web.Response:
        content, status = self.answer
        return web.json_response(content, status=status)


@pytest.fixture
async def peer(neighbourhood: Neighbourhood) -> Peer:
    made = Peer()
    server = await neighbourhood.server(made, PEER)
    neighbourhood.names.add(f"_matrix-fed._tcp.{PEER}", "SRV", f"0 0 {server.port} {PEER}.")
    return made


@pytest.fixture
def room() -> Room:
    return public_room("12", BOB)


@pytest.fixture
async def here(database: Database, room: Room) -> AsyncIterator[Graph]:
    async with graph_on(database, room) as graph:
        yield graph


@pytest.fixture
async def directory(neighbourhood: Neighbourhood, peer: Peer, here: Graph) -> Directory:
    membership_client = MembershipClient(neighbourhood.reach().client)
    return Directory(HERE, here.database, membership_client, here.graph, now_ms=lambda: NOW)


async def test_an_alias_resolves_to_a_room_and_its_servers(directory: Directory, here: Graph, room: Room) -> None:
    """This server is first."""
    await join(here, room)
    await directory.create(KITCHEN, room.room_id, US)
    resolve: LocalAlias = directory.resolve
    assert await resolve(KITCHEN) == (room.room_id, (HERE, "a.example", "b.example"))
    assert await directory.handle_query({"room_alias": KITCHEN}, "requester.test") == {
        "room_id": room.room_id,
        "servers": [HERE, "a.example", "b.example"],
    }
    assert await directory.fetch(KITCHEN) == Alias(KITCHEN, room.room_id, US, NOW)


async def test_an_alias_may_belong_to_a_room_without_local_users(directory: Directory) -> None:
    """No longer, or not yet."""
    await directory.create(KITCHEN, "!gone:a.example", US)
    assert await directory.resolve(KITCHEN) == ("!gone:a.example", ())


async def test_an_alias_belongs_to_one_room(directory: Directory) -> None:
    """Creating it again has no effect; it is free after it was deleted."""
    await directory.create(KITCHEN, "!first:a.example", US)
    await directory.create(KITCHEN, "!first:a.example", US)
    with pytest.raises(MatrixError, match="409 M_ROOM_IN_USE"):
        await directory.create(KITCHEN, "!second:a.example", US)
    assert await directory.remove(KITCHEN)
    assert not await directory.remove(KITCHEN)
    assert await directory.resolve(KITCHEN) is None
    await directory.create(KITCHEN, "!second:a.example", US)
    await directory.create(f"#soup:{HERE}", "!second:a.example", US)
    assert await directory.aliases_of("!second:a.example") == [KITCHEN, f"#soup:{HERE}"]
    assert await directory.aliases_of("!first:a.example") == []


@pytest.mark.parametrize(
    "alias", ["", "kitchen", f"#a\0b:{HERE}", "#kitchen", f"#{'x' * 255}:{HERE}", f"#kitchen:{PEER}"]
)
async def test_only_aliases_of_this_server_can_be_changed(directory: Directory, alias: str) -> None:
    """Aliases of other servers and invalid ones are refused."""
    for asked in (directory.create(alias, "!room:a.example", US), directory.remove(alias), directory.fetch(alias)):
        with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
            await asked


@pytest.mark.parametrize("room_id", ["", "room", "!a\0b:c.example", "!room"])
async def test_invalid_room_ids_are_refused(directory: Directory, room_id: str) -> None:
    """By all operations."""
    for asked in (
        directory.create(KITCHEN, room_id, US),
        directory.aliases_of(room_id),
        directory.publish(room_id, True),
        directory.is_published(room_id),
    ):
        with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
            await asked


async def test_a_remote_alias_is_resolved_by_its_server(directory: Directory, peer: Peer) -> None:
    """Invalid server names are left out; the order is kept, and the list is limited."""
    assert await directory.resolve(f"#kitchen:{PEER}") == ("!room:a.example", ("z.example", "a.example"))
    servers = ["bad name", "", 5, "a.example", HERE, *(f"s{number}.example" for number in range(2000))]
    peer.answer = ({"room_id": "!room:a.example", "servers": servers}, 200)
    found = await directory.resolve(f"#kitchen:{PEER}")
    assert found is not None
    assert found[1][:3] == (HERE, "a.example", "s0.example")
    assert len(found[1]) == MAX_SERVERS


async def test_failures_of_remote_aliases(directory: Directory, peer: Peer) -> None:
    """The alias does not exist; the server refuses, sends an invalid response, or is unreachable."""
    peer.answer = ({"errcode": "M_NOT_FOUND"}, 404)
    assert await directory.resolve(f"#kitchen:{PEER}") is None
    peer.answer = ({"errcode": "M_FORBIDDEN"}, 403)
    with pytest.raises(PeerRefused):
        await directory.resolve(f"#kitchen:{PEER}")
    for nonsense in ({}, {"room_id": "room", "servers": []}, {"room_id": "!room:a.example"}):
        peer.answer = (nonsense, 200)
        with pytest.raises(PeerMalformed):
            await directory.resolve(f"#kitchen:{PEER}")
    with pytest.raises(PeerError):
        await directory.resolve("#kitchen:nowhere.test")
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        await directory.resolve("kitchen")


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        ({}, "400 M_MISSING_PARAM"),
        ({"room_alias": ""}, "400 M_MISSING_PARAM"),
        ({"room_alias": "kitchen"}, "400 M_INVALID_PARAM"),
        ({"room_alias": f"#a\0b:{HERE}"}, "400 M_INVALID_PARAM"),
        ({"room_alias": KITCHEN}, "404 M_NOT_FOUND"),
        ({"room_alias": f"#kitchen:{PEER}"}, "404 M_NOT_FOUND"),
    ],
)
async def test_queries_are_answered_for_local_aliases_only(
    directory: Directory, query: dict[str, str], refusal: str
) -> None:
    """No other server is queried for them."""
    with pytest.raises(MatrixError, match=refusal):
        await directory.handle_query(query, "requester.test")


async def test_rooms_are_published_and_unpublished(directory: Directory) -> None:
    """Repeating an operation has no effect."""
    for listed in (True, True, False, False):
        await directory.publish("!room:a.example", listed)
        assert await directory.is_published("!room:a.example") is listed
