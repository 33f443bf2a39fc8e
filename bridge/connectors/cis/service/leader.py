"""The services that run in only one process of a node, the leader: it reads the rooms of agents, joins the
rooms of peers, announces the node's agents, and sends heartbeats and the queued events for published nodes.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from bridge.agents.routing_table import RoutingTable
from bridge.connectors.cis.http.messenger import PublishedMessenger
from bridge.connectors.cis.http.outbox import PublishedOutbox
from bridge.connectors.cis.service.announcer import AgentAnnouncer, NamespacesOf
from bridge.connectors.cis.service.discovery import AgentDiscovery, RoomJoiner
from bridge.connectors.cis.service.dispatch import EffectDispatcher
from bridge.connectors.cis.service.heartbeats import HeartbeatSender
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.service.room_reader import RoomReader
from bridge.connectors.cis.service.sender import RoomSender
from bridge.connectors.cis.settings import CisSettings
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import GhostNames


@dataclass(frozen=True, slots=True)
class LeaderServices:
    """The running services, while this process is the leader."""

    reader: RoomReader
    joiner: RoomJoiner
    announcer: AgentAnnouncer
    heartbeats: HeartbeatSender
    published: PublishedMessenger

    def peer_changed(self, node_id: str) -> None:
        """A peer was added, removed or changed: join its rooms again and send it the local agents."""
        self.joiner.peer_changed(node_id)
        self.published.peer_registered(node_id)
        self.heartbeats.send_soon()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedServices:
    """The services of every process that the leader's services need."""

    backend: MatrixBackend
    routes: RoutingTable
    settings: CisSettings
    names: GhostNames
    room_sender: RoomSender
    dispatcher: EffectDispatcher
    discovery: AgentDiscovery
    published: PublishedMessenger
    outbox: PublishedOutbox
    observer: CisObserver
    namespaces_of: NamespacesOf
    now_ms: Callable[[], int]


@contextlib.asynccontextmanager
async def run_leader_services(shared: SharedServices) -> AsyncIterator[LeaderServices]:
    """Start the leader's services, beginning with the announcements that are missing since the last leader
    ended."""
    async with AsyncExitStack() as stack:
        joiner = RoomJoiner(shared.backend, shared.settings, shared.room_sender, shared.observer, now_ms=shared.now_ms)
        announcer = AgentAnnouncer(
            shared.backend,
            shared.routes,
            shared.settings,
            shared.room_sender,
            shared.observer,
            names=shared.names,
            namespaces_of=shared.namespaces_of,
            published=shared.published,
            now_ms=shared.now_ms,
        )
        heartbeats = HeartbeatSender(
            shared.backend,
            shared.routes,
            shared.settings,
            shared.observer,
            lists_all=announcer.all_agents_public,
            published=shared.published,
            now_ms=shared.now_ms,
        )
        reader = RoomReader(
            shared.settings,
            shared.dispatcher,
            shared.discovery,
            joiner,
            shared.room_sender,
            shared.observer,
            on_joined=lambda node_id: heartbeats.send_soon(),
        )
        await announcer.start()
        stack.push_async_callback(announcer.close)
        # No await from here on: no other task runs before the caller knows that this process leads.
        for service in (joiner, heartbeats, shared.outbox):
            service.start()
            stack.push_async_callback(service.close)
        yield LeaderServices(reader, joiner, announcer, heartbeats, shared.published)
