"""The endpoints for published nodes."""

from dataclasses import replace

import aiohttp

from tests.bridge.connectors.cis.cis_nodes import QUICK, CisNodes, cis_nodes, peers_of
from tests.bridge.connectors.cis.published_node import PublishedNode, published_node
from tests.support.postgres import Server


async def _url(nodes: CisNodes, name: str) -> str:
    return f"http://{nodes._address_of(name)}"


async def test_health(postgres_server: Server, migrated_template: str) -> None:
    """The response has the shape of published nodes, with the number of peers."""
    async with cis_nodes(postgres_server, migrated_template) as nodes, aiohttp.ClientSession() as session:
        await nodes.start_with(replace(QUICK, node_id="a.test", peers=peers_of("b.test", "c.test")))
        async with session.get(f"{await _url(nodes, 'a.test')}/_cis/v1/health") as response:
            assert response.status == 200
            assert await response.json() == {
                "status": "healthy",
                "server_name": "a.test",
                "version": "test",
                "peers": 2,
            }


async def test_the_key_endpoint_is_the_nodes_own(postgres_server: Server, migrated_template: str) -> None:
    """Published nodes use it to check whether a peer is reachable."""
    async with cis_nodes(postgres_server, migrated_template) as nodes, aiohttp.ClientSession() as session:
        await nodes.start_with(replace(QUICK, node_id="a.test"))
        async with session.get(f"{await _url(nodes, 'a.test')}/_matrix/key/v2/server") as response:
            assert response.status == 200
            assert (await response.json())["server_name"] == "a.test"


async def test_the_body_from_an_unknown_client_is_not_read(postgres_server: Server, migrated_template: str) -> None:
    """The response is 403 in the shape of published nodes; other methods are refused by the port."""
    async with cis_nodes(postgres_server, migrated_template) as nodes, published_node("old.local") as stranger:
        await nodes.start_with(replace(QUICK, node_id="a.test"))
        url = await _url(nodes, "a.test")
        for body in (stranger.registered(), b"{", b"x" * 100):
            status, answer = await stranger.send(url, body, {"x-origin-server": "b.test"})
            assert (status, answer["accepted"]) == (403, False)
        assert await _method(stranger, url) == 405


async def _method(stranger: PublishedNode, url: str) -> int:
    async with stranger.session.get(f"{url}/_cis/v1/event/receive") as response:
        return response.status
