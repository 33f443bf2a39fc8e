"""What one process of a node does for all of them: it reads the rooms, joins those of peers, announces the
agents of the node, sends its heartbeats and what waits for published nodes.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from bridge.agents.routing_table import RoutingTable
from bridge.connectors.cis.http.outbox import PublishedOutbox
from bridge.connectors.cis.http.publishing import Publishing
from bridge.connectors.cis.service.discovery import Contacting, Learning
from bridge.connectors.cis.service.dispatch import Taking
from bridge.connectors.cis.service.heartbeats import OwnBeats
from bridge.connectors.cis.service.inbound import Incoming
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.service.registrations import Announcing, NamespacesOf
from bridge.connectors.cis.service.sender import Speech
from bridge.connectors.cis.settings import CisSettings
from bridge.matrix.backend import MatrixBackend
from bridge.matrix.ghost import GhostNames


@dataclass(frozen=True, slots=True)
class Lead:
    """As long as this process leads."""

    incoming: Incoming
    contacting: Contacting
    announcing: Announcing
    beats: OwnBeats
    publishing: Publishing

    def follow(self, node_id: str) -> None:
        """The peer has come, or gone, or is another one: it is met anew, and told of our agents."""
        self.contacting.follow(node_id)
        self.publishing.registered(node_id)
        self.beats.soon()


@dataclass(frozen=True, slots=True, kw_only=True)
class Followers:
    """What every process has, and whoever leads needs."""

    side: MatrixBackend
    routes: RoutingTable
    settings: CisSettings
    names: GhostNames
    speech: Speech
    taking: Taking
    learning: Learning
    publishing: Publishing
    outbox: PublishedOutbox
    observer: CisObserver
    namespaces_of: NamespacesOf
    now_ms: Callable[[], int]


@contextlib.asynccontextmanager
async def leading(all_: Followers) -> AsyncIterator[Lead]:
    """Begins with what has been missed since somebody led last."""
    async with AsyncExitStack() as stack:
        contacting = Contacting(all_.side, all_.settings, all_.speech, all_.observer, now_ms=all_.now_ms)
        announcing = Announcing(
            all_.side,
            all_.routes,
            all_.settings,
            all_.speech,
            all_.observer,
            names=all_.names,
            namespaces_of=all_.namespaces_of,
            published=all_.publishing,
            now_ms=all_.now_ms,
        )
        beats = OwnBeats(
            all_.side,
            all_.routes,
            all_.settings,
            all_.observer,
            lists_all=announcing.are_all_told_to_all,
            published=all_.publishing,
            now_ms=all_.now_ms,
        )
        incoming = Incoming(
            all_.settings,
            all_.taking,
            all_.learning,
            contacting,
            all_.speech,
            all_.observer,
            came=lambda node_id: beats.soon(),
        )
        await announcing.start()
        stack.push_async_callback(announcing.close)
        # From here on nobody else's turn comes until whoever leads knows that it does.
        for part in (contacting, beats, all_.outbox):
            part.start()
            stack.push_async_callback(part.close)
        yield Lead(incoming, contacting, announcing, beats, all_.publishing)
