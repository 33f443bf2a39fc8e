"""A Palaver node and a published node that are peers."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from bridge.peers.peer import Peer, PeerAccess, PeerProfile
from federation.matrix.networks import LOOPBACK
from tests.bridge.connectors.cis.cis_nodes import QUICK, CisNode, CisNodes, cis_nodes
from tests.bridge.connectors.cis.published_node import PublishedNode, published_node
from tests.support.postgres import Server


@dataclass
class Both:
    ours: CisNode
    theirs: PublishedNode
    nodes: CisNodes

    @property
    def url(self) -> str:
        return f"http://{self.nodes._address_of(self.ours.name)}"

    async def send(self, event: Any, headers: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
        return await self.theirs.send(self.url, event, headers)


@pytest.fixture
async def nodes(postgres_server: Server, migrated_template: str) -> AsyncIterator[CisNodes]:
    async with cis_nodes(postgres_server, migrated_template) as nodes:
        yield nodes


@pytest.fixture
async def theirs() -> AsyncIterator[PublishedNode]:
    async with published_node("old.local") as node:
        yield node


@pytest.fixture
async def both(nodes: CisNodes, theirs: PublishedNode) -> Both:
    peer = Peer("old.local", PeerProfile.CIS_1_1)
    peers = {"old.local": PeerAccess(peer, theirs.url, LOOPBACK)}
    [ours] = await nodes.start_with(replace(QUICK, node_id="new.local", peers=peers))
    return Both(ours, theirs, nodes)
