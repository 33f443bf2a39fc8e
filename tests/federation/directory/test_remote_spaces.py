"""Requests for spaces to other servers, and their cache."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from federation.directory.space_walk import CACHE_MS, NEGATIVE_CACHE_MS, RemoteSpaces
from tests.support.neighbourhood import Neighbourhood

ROOM = "!space:a.example"


class Peer:
    """Another server."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.paths: list[str] = []
        self.is_old = False
        self.answer: tuple[Any, int] = ({"room": {"room_id": ROOM, "name": name}}, 200)

    async def __call__(self, request: web.Request) -> web.Response:
        self.paths.append(request.raw_path)
        if self.is_old and "/v1/" in request.path:
            return web.json_response({"errcode": "M_UNRECOGNIZED"}, status=404)
        content, status = self.answer
        return web.json_response(content, status=status)


async def peers(neighbourhood: Neighbourhood, *names: str) -> list[Peer]:
    made = []
    for name in names:
        peer = Peer(name)
        server = await neighbourhood.server(peer, name)
        neighbourhood.names.add(f"_matrix-fed._tcp.{name}", "SRV", f"0 0 {server.port} {name}.")
        made.append(peer)
    return made


def hierarchy(neighbourhood: Neighbourhood) -> RemoteSpaces:
    return RemoteSpaces(neighbourhood.reach().client, now_ms=lambda: int(neighbourhood.clock() * 1000))


async def name_from(asked: RemoteSpaces, *servers: str, suggested_only: bool = False) -> Any:
    seen = await asked.query(ROOM, servers, suggested_only=suggested_only)
    return None if seen is None else seen.fields["name"]


async def test_the_first_valid_response_is_used(neighbourhood: Neighbourhood) -> None:
    """No further server is queried; refusals and invalid responses are skipped."""
    one, two, three = await peers(neighbourhood, "one.test", "two.test", "three.test")
    one.answer = ({"errcode": "M_NOT_FOUND"}, 404)
    two.answer = ({"room": {"room_id": "!other:a.example"}}, 200)
    asked = hierarchy(neighbourhood)
    assert await name_from(asked, "one.test", "two.test", "three.test", "four.test") == "three.test"
    assert one.paths == ["/_matrix/federation/v1/hierarchy/%21space%3Aa.example?suggested_only=false"]
    assert [len(peer.paths) for peer in (one, two, three)] == [1, 1, 1]
    assert await name_from(asked, "one.test", "two.test") is None


async def test_at_most_three_servers_are_queried(neighbourhood: Neighbourhood) -> None:
    """A space may list a thousand."""
    names = ["one.test", "two.test", "three.test", "four.test"]
    servers = await peers(neighbourhood, *names)
    for peer in servers[:3]:
        peer.answer = ({}, 403)
    assert await name_from(hierarchy(neighbourhood), *names) is None
    assert servers[3].paths == []


async def test_the_unstable_path_is_used_for_older_servers(neighbourhood: Neighbourhood) -> None:
    """If the stable endpoint is unknown, not if it refuses."""
    (peer,) = await peers(neighbourhood, "one.test")
    peer.is_old = True
    asked = hierarchy(neighbourhood)
    assert await name_from(asked, "one.test", suggested_only=True) == "one.test"
    assert peer.paths[1] == (
        "/_matrix/federation/unstable/org.matrix.msc2946/hierarchy/%21space%3Aa.example?suggested_only=true"
    )
    peer.is_old, peer.answer = False, ({"errcode": "M_NOT_FOUND"}, 404)
    assert await name_from(asked, "one.test") is None
    assert len(peer.paths) == 3


async def test_responses_are_cached_for_some_minutes(neighbourhood: Neighbourhood) -> None:
    """Separately for each server: one server's response must not count as another's."""
    one, two = await peers(neighbourhood, "one.test", "two.test")
    asked = hierarchy(neighbourhood)
    for _ in range(3):
        assert await name_from(asked, "one.test") == "one.test"
    assert await name_from(asked, "two.test", "one.test") == "two.test"
    assert (len(one.paths), len(two.paths)) == (1, 1)
    assert await name_from(asked, "one.test", suggested_only=True) == "one.test"
    neighbourhood.clock.now += CACHE_MS / 1000
    assert await name_from(asked, "one.test") == "one.test"
    assert len(one.paths) == 3


async def test_refusals_are_cached_for_a_minute(neighbourhood: Neighbourhood) -> None:
    """Then the server is queried again."""
    (peer,) = await peers(neighbourhood, "one.test")
    good, peer.answer = peer.answer, ({"errcode": "M_NOT_FOUND"}, 404)
    asked = hierarchy(neighbourhood)
    assert await name_from(asked, "one.test") is None
    peer.answer = good
    assert await name_from(asked, "one.test") is None
    neighbourhood.clock.now += NEGATIVE_CACHE_MS / 1000
    assert await name_from(asked, "one.test") == "one.test"


async def test_an_unreachable_server_is_not_queried_for_the_next_room(neighbourhood: Neighbourhood) -> None:
    """A space that lists it a thousand times costs one timeout."""
    reach = neighbourhood.reach()
    asked = RemoteSpaces(reach.client, now_ms=lambda: int(neighbourhood.clock() * 1000))
    for number in range(5):
        assert await asked.query(f"!{number}:a.example", ["nowhere.test"], suggested_only=False) is None
    assert len(reach.counted.ended) == 1
    neighbourhood.clock.now += NEGATIVE_CACHE_MS / 1000
    assert await asked.query("!0:a.example", ["nowhere.test"], suggested_only=False) is None
    assert len(reach.counted.ended) == 2


async def test_concurrent_queries_make_one_request(neighbourhood: Neighbourhood) -> None:
    """All callers get its result."""
    (peer,) = await peers(neighbourhood, "one.test")
    asked = hierarchy(neighbourhood)
    assert await asyncio.gather(*(name_from(asked, "one.test") for _ in range(5))) == ["one.test"] * 5
    assert len(peer.paths) == 1
    await asked.close()


@pytest.mark.parametrize("answer", [{}, {"room": 5}, {"room": {"room_id": ROOM, "children_state": 5}}])
async def test_invalid_responses_are_ignored(neighbourhood: Neighbourhood, answer: dict[str, Any]) -> None:
    """There is no result, or one without children."""
    (peer,) = await peers(neighbourhood, "one.test")
    peer.answer = (answer, 200)
    seen = await hierarchy(neighbourhood).query(ROOM, ["one.test"], suggested_only=False)
    assert seen is None or list(seen.children_state) == []
