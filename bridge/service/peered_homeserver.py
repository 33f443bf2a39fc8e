"""A homeserver that federates with those peers of its agents that are homeservers too, for as long as they
are trusted; and a port on which the others may speak plain HTTP."""

from collections.abc import Callable, Collection
from dataclasses import replace

from bridge.live_view import LiveCollection
from bridge.service.agent_peers import AgentPeers
from bridge.service.operator.parts import Parts
from federation.homeserver_settings import HomeserverSettings
from federation.wire.listener import ListenerSettings


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


def follow(peers: AgentPeers, homeserver: Parts) -> Callable[[], None]:
    """The way to a peer that changes is looked for anew, and what waits for it is sent; gives what ends
    it."""

    def changed(node_ids: Collection[str]) -> None:
        for node_id in node_ids:
            homeserver.resolver.forget(node_id)
            # Of those that may not be spoken with it sends nothing.
            homeserver.outbox.retry(node_id)

    return peers.subscribe(changed)
