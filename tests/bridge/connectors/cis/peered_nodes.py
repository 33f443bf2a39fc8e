"""Complete nodes in one process that only become peers when an operator adds them."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from bridge.config.agent_federation import AgentFederation, AgentPeer
from bridge.node.homeserver_backend import follow, with_peers
from bridge.peers.peers import read_peer
from bridge.peers.service import AgentPeers
from federation.client.peer_settings import CertificateFiles
from federation.homeserver import HomeserverSettings
from federation.http.server.tls import TlsFiles
from federation.peers.policy import policy
from storage.database import Database
from tests.bridge.connectors.cis.cis_nodes import QUICK, CisNode, CisNodes
from tests.federation.nodes import Node, now_ms
from tests.support.loopback_server import Certificates
from tests.support.postgres import Server


class PeeredNodes(CisNodes):
    """With certificates, the nodes accept only their peers, and each has a certificate of its own authority.
    Without, they federate with every server."""

    def __init__(self, *args: Any, certificates: Certificates | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self._certificates = certificates
        self._files: dict[str, CertificateFiles] = {}
        self.peers: dict[str, AgentPeers] = {}
        self.in_file: dict[str, list[Mapping[str, Any]]] = {}

    async def strangers(self, *names: str, **changed: Any) -> list[CisNode]:
        return await self.start_with(*(replace(QUICK, node_id=name, **changed) for name in names))

    def known_as(self, name: str, **said: Any) -> AgentPeer:
        """Return what another operator enters to add this node."""
        where = {"url": f"https://{self._address_of(name)}"} if self._certificates is not None else {}
        read = read_peer({"node_id": name, **where, **said})
        assert isinstance(read, AgentPeer), read
        return read

    async def add(self, at: str, name: str, **said: Any) -> bool:
        authority = None if self._certificates is None else self.authority_of(name).decode()
        return await self.peers[at].add(self.known_as(name, **said), authority)

    def authority_of(self, name: str) -> bytes:
        """Return the certificate of the authority of this node's certificate."""
        assert self._certificates is not None, "it is spoken with in plain HTTP"
        return self._certificates.authority_of(self._files[name]).read_bytes()

    async def introduce(self, one: str, other: str, **said: Any) -> None:
        """Add each of two nodes as a peer of the other."""
        await self.add(one, other, **said)
        await self.add(other, one, **said)

    async def restart(self, one: CisNode) -> CisNode:
        """Start a node again on the same database."""
        await one.close()
        await self.peers[one.name].close()
        await self._know(one.name, one.node.database)
        return await self.reopen(one, peers=self.peers[one.name].peers)

    async def _know(self, name: str, database: Database) -> None:
        federation = AgentFederation.model_validate({"peers": self.in_file.get(name, [])})
        peers = self.peers[name] = AgentPeers(name, federation, database, now_ms=now_ms)
        await peers.start()
        self._stack.push_async_callback(peers.close)
        self._settings[name] = replace(self._settings[name], peers=peers.peers)
        self.follow_peers[name] = peers.subscribe

    async def _run(self, name: str, database: Database) -> Node:
        await self._know(name, database)
        if self._certificates is not None:
            files = self._files[name] = self._certificates.make(name, trusted=False)
            self._tls = TlsFiles(files.certificate, files.private_key)
        node = await super()._run(name, database)
        follow(self.peers[name], node.homeserver)
        return node

    def _settled(self, settings: HomeserverSettings) -> HomeserverSettings:
        if self._certificates is None:
            return settings
        closed = replace(settings, policy=policy((), is_open=False))
        return with_peers(closed, self.peers[settings.server_name], ())


@contextlib.asynccontextmanager
async def peered_nodes(
    server: Server, template: str, certificates: Certificates | None = None
) -> AsyncIterator[PeeredNodes]:
    async with AsyncExitStack() as stack:
        yield PeeredNodes(server, template, stack, certificates=certificates)
