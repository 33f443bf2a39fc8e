"""A node that is a homeserver itself: it carries its own rooms, and speaks with other homeservers.

A homeserver that federates with those peers of its agents that are homeservers too, for as long as they
are trusted; and a port on which the others may speak plain HTTP.
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
from bridge.node.backend import THERE
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


def with_peers(
    settings: HomeserverSettings, peers: AgentPeers, servers: Collection[str]
) -> HomeserverSettings:
    """`servers` are those of the [[peers]] blocks: what these say of a server goes further. Who is not
    trusted is spoken with by nobody, whatever else lets it in: in the rooms it would hear of all agents."""
    named = {name.lower() for name in servers}
    policy = settings.policy
    return replace(
        settings,
        peers={name: one for name, one in settings.peers.items() if name.lower() in named},
        added_peers=peers.servers,
        policy=replace(policy, known=policy.known & named, added=peers.servers, distrusted=peers.distrusted),
    )


def with_plain_http(settings: ListenerSettings, peers: AgentPeers) -> ListenerSettings:
    """From where published nodes send. One that is not trusted is told so."""
    always = tuple(settings.plain_networks)
    return replace(settings, plain_networks=LiveCollection(lambda: (*always, *peers.plain_networks)))


def follow(peers: AgentPeers, homeserver: Homeserver) -> Callable[[], None]:
    """The way to a peer that changes is looked for anew, and what waits for it is sent; gives what ends
    it."""

    def changed(node_ids: Collection[str]) -> None:
        for node_id in node_ids:
            homeserver.resolver.invalidate(node_id)
            # Of those that may not be spoken with it sends nothing.
            homeserver.outbox.retry(node_id)

    return peers.subscribe(changed)


class HomeserverBackend:
    """Satisfies `bridge.node.backend.NodeBackend`."""

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
        """All that it reads it reads when it is opened."""

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
        """Whoever looks for a user or a room of it finds them in its own tables, but for what is made when it
        is asked for."""
        self.homeserver.directory.create_missing_room = node.make_portal

    async def close(self) -> None:
        await self._stack.aclose()

    @property
    def side(self) -> LocalUsers:
        return self.homeserver.rooms

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
        """People live on other homeservers, and speak for themselves."""
        return None

    async def rooms_of_ours(self, after: str, limit: int) -> Sequence[tuple[str, int]]:
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

    async def ours_in(self, room_id: str, after: str, limit: int) -> Sequence[tuple[str, str]]:
        name = self.homeserver.server_name
        async with self.database.transaction(readonly=True) as connection:
            return await inspection.list_members_of_server(connection, room_id, name, THERE, after, limit)

    def admits(self, server_name: str) -> bool:
        return self.homeserver.settings.policy.admits(server_name)

    def make_app(self, node: Node, limits: Limits) -> web.Application:
        app = make_app(node, limits)
        serve(app, self.homeserver)
        return app

    def commands(self) -> Mapping[str, Command]:
        return {
            **operator.commands(self.homeserver),
            **peer_commands.commands(self._peers, self.homeserver),
        }

    def reload(self) -> None:
        self.homeserver.connections.reload()

    def summary(self) -> Mapping[str, Any]:
        return {}

    async def status(self) -> Mapping[str, Any]:
        return {}
