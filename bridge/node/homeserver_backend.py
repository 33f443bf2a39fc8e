"""A node that is a homeserver: it federates with other homeservers.

The agent peers that are homeservers too are admitted as long as they are trusted, and published nodes may
send plain HTTP to the port.
"""

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from aiohttp import web

from bridge.agents.address import AgentAddress
from bridge.config.config import Config
from bridge.config.settings import homeserver_settings
from bridge.control.server import commands as operator
from bridge.control.socket import Command
from bridge.matrix.ghost import HomeserverGhostNames
from bridge.node.assembly import NodeCore
from bridge.node.backend import PRESENT_MEMBERSHIPS
from bridge.observability.federation_observer import FederationObserver
from bridge.observability.live_view import LiveCollection
from bridge.observability.metrics import FederationMetrics
from bridge.peers import commands as peer_commands
from bridge.peers.service import AgentPeers
from federation.homeserver import Homeserver, HomeserverSettings, open_homeserver
from federation.http.app import make_app, serve
from federation.http.server.capacity import Limits
from federation.http.server.listener import ListenerSettings
from federation.http.services import Node
from federation.keys.server_keys import LocalKeys
from federation.local_users.local_users import LocalUsers
from federation.peers.audit_trail import AuditTrail
from storage.database import Database
from storage.rooms import inspection


def with_peers(settings: HomeserverSettings, peers: AgentPeers, servers: Collection[str]) -> HomeserverSettings:
    """`servers` are the servers of the [[peers]] blocks, whose settings take precedence. A distrusted peer is
    not admitted, even if another rule admits it: in shared rooms it would receive messages of all agents."""
    named = {name.lower() for name in servers}
    policy = settings.policy
    return replace(
        settings,
        peers={name: one for name, one in settings.peers.items() if name.lower() in named},
        added_peers=peers.servers,
        policy=replace(policy, known=policy.known & named, added=peers.servers, distrusted=peers.distrusted),
    )


def with_plain_http(settings: ListenerSettings, peers: AgentPeers) -> ListenerSettings:
    """Add the networks from which published nodes send. Distrusted nodes are included, so that they get their
    refusal."""
    always = tuple(settings.plain_networks)
    return replace(settings, plain_networks=LiveCollection(lambda: (*always, *peers.plain_networks)))


def follow(peers: AgentPeers, homeserver: Homeserver) -> Callable[[], None]:
    """When a peer changes, discard its resolved address and retry its queue; return a function that stops
    following."""

    def changed(node_ids: Collection[str]) -> None:
        for node_id in node_ids:
            homeserver.resolver.invalidate(node_id)
            # Nothing is sent to servers that are not admitted.
            homeserver.outbox.retry(node_id)

    return peers.subscribe(changed)


class HomeserverBackend:
    """Implements `bridge.node.backend.NodeBackend`."""

    homeserver: Homeserver

    def __init__(
        self,
        config: Config,
        *,
        keys: Callable[[], LocalKeys],
        metrics: FederationMetrics,
        version: str,
        now_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._keys = keys
        self._metrics = metrics
        self._version = version
        self._now_ms = now_ms
        self._stack = contextlib.AsyncExitStack()

    async def prepare(self) -> None:
        """Nothing to prepare: everything is read in `open`."""

    async def open(self, database: Database, peers: AgentPeers) -> None:
        self._peers = peers
        try:
            await self._open(database, peers)
        except BaseException:
            await self._stack.aclose()
            raise

    async def _open(self, database: Database, peers: AgentPeers) -> None:
        servers = [peer.server_name for peer in self._config.peers]
        self.homeserver = await self._stack.enter_async_context(
            open_homeserver(
                with_peers(homeserver_settings(self._config, self._version), peers, servers),
                database,
                self._keys,
                now_ms=self._now_ms,
                observer=FederationObserver(self._metrics),
            )
        )
        self._stack.callback(follow(peers, self.homeserver))

    async def node_started(self, node: NodeCore) -> None:
        """Users and rooms are in the node's own database; only rooms that are created on lookup need the
        core."""
        self.homeserver.directory.create_missing_room = node.make_portal

    async def close(self) -> None:
        await self._stack.aclose()

    @property
    def side(self) -> LocalUsers:
        return self.homeserver.local_users

    def names(self, has_puppet: Callable[[AgentAddress], bool]) -> HomeserverGhostNames:
        return HomeserverGhostNames(self.homeserver.server_name, has_puppet)

    @property
    def database(self) -> Database:
        return self.homeserver.database

    @property
    def audit(self) -> AuditTrail:
        return self.homeserver.audit

    @property
    def for_people(self) -> None:
        """People have accounts on other homeservers and send their own messages."""
        return None

    async def rooms_with_ghosts(self, after: str, limit: int) -> Sequence[tuple[str, int]]:
        name = self.homeserver.server_name
        found: list[tuple[str, int]] = []
        while len(found) < limit:
            async with self.database.transaction(readonly=True) as connection:
                ids = await inspection.list_room_ids(connection, after, limit)
                joined = await inspection.count_joined(connection, ids, name)
            found += [(room_id, joined[room_id].local) for room_id in ids if room_id in joined]
            if len(ids) < limit:
                break
            after = ids[-1]
        return [one for one in found if one[1]][:limit]

    async def ghosts_in(self, room_id: str, after: str, limit: int) -> Sequence[tuple[str, str]]:
        name = self.homeserver.server_name
        async with self.database.transaction(readonly=True) as connection:
            return await inspection.list_members_of_server(connection, room_id, name, PRESENT_MEMBERSHIPS, after, limit)

    def admits(self, server_name: str) -> bool:
        return self.homeserver.settings.policy.admits(server_name)

    def make_app(self, node: Node, limits: Limits) -> web.Application:
        app = make_app(node, limits)
        serve(app, self.homeserver)
        return app

    def commands(self) -> Mapping[str, Command]:
        return {**operator.commands(self.homeserver), **peer_commands.commands(self._peers, self.homeserver)}

    def reload(self) -> None:
        self.homeserver.connections.reload()

    def summary(self) -> Mapping[str, Any]:
        return {}

    async def status(self) -> Mapping[str, Any]:
        return {}
