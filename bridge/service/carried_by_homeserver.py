"""A node that is a homeserver itself: it carries its own rooms, and speaks with other homeservers."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiohttp import web

from bridge.address import AgentAddress
from bridge.config import Config
from bridge.federation_metrics import FederationMetrics
from bridge.ghost_names import HomeserverNames
from bridge.service import operator, peer_commands
from bridge.service.agent_peers import AgentPeers
from bridge.service.control_socket import Command
from bridge.service.federation_observer import FederationObserver
from bridge.service.matrix_carrier import THERE, Inhabited
from bridge.service.peered_homeserver import follow, with_peers
from bridge.service.settings import homeserver_settings
from federation.server_keys import OwnKeys
from federation.service.audit import AuditTrail
from federation.service.homeserver import Homeserver, open_homeserver
from federation.service.rooms import Rooms
from federation.wire.app import make_app
from federation.wire.homeserver_routes import serve
from federation.wire.limits import Limits
from federation.wire.node import Node
from storage import inspection
from storage.database import Database


class CarriedByHomeserver:
    """Satisfies `bridge.service.matrix_carrier.Carrier`."""

    homeserver: Homeserver

    def __init__(
        self,
        config: Config,
        *,
        keys: Callable[[], OwnKeys],
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

    async def inhabit(self, node: Inhabited) -> None:
        """Whoever looks for a user or a room of it finds them in its own tables, but for what is made when it
        is asked for."""
        self.homeserver.directory.make = node.make_office

    async def close(self) -> None:
        await self._stack.aclose()

    @property
    def side(self) -> Rooms:
        return self.homeserver.rooms

    def names(self, has_puppet: Callable[[AgentAddress], bool]) -> HomeserverNames:
        return HomeserverNames(self.homeserver.server_name, has_puppet)

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
                ids = await inspection.room_ids_after(connection, after, limit)
                joined = await inspection.count_joined(connection, ids, name)
            found += [(room_id, joined[room_id].own) for room_id in ids if room_id in joined]
            if len(ids) < limit:
                break
            after = ids[-1]
        return [one for one in found if one[1]][:limit]

    async def ours_in(self, room_id: str, after: str, limit: int) -> Sequence[tuple[str, str]]:
        name = self.homeserver.server_name
        async with self.database.transaction(readonly=True) as connection:
            return await inspection.members_of_server(connection, room_id, name, THERE, after, limit)

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
