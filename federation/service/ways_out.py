"""Everything that asks other servers: the way to them, signed requests, and their keys."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from federation.homeserver_settings import HomeserverSettings
from federation.peer_settings import Peers
from federation.server_keys import OwnKeys
from federation.service.client import ClientObserver, ClientWitness, FederationClient
from federation.service.dns import Dns
from federation.service.key_fetch import KeyObserver
from federation.service.key_ring import KeyRing
from federation.service.peer_connections import PeerConnections
from federation.service.public_web import PublicWeb
from federation.service.resolver import Resolver
from storage.database import Database


@dataclass(frozen=True, slots=True)
class WaysOut:
    resolver: Resolver
    connections: PeerConnections
    client: FederationClient
    key_ring: KeyRing
    web: PublicWeb


def open_ways_out(
    stack: contextlib.AsyncExitStack,
    settings: HomeserverSettings,
    database: Database,
    own_keys: Callable[[], OwnKeys],
    *,
    now_ms: Callable[[], int],
    client_observer: ClientObserver,
    key_observer: KeyObserver,
    witness: ClientWitness,
) -> WaysOut:
    """They are closed with the stack. Raises LocalError when a file that the settings name can't be used."""
    dns, peers = Dns(settings.name_servers), Peers(settings.peers, settings.added_peers)
    user_agent = f"Palaver/{settings.software_version}"
    connections = PeerConnections(
        dns, peers, user_agent=user_agent, authorities=settings.authorities, blocked=settings.blocked
    )
    stack.push_async_callback(connections.close)
    resolver = Resolver(connections, dns, peers)
    stack.push_async_callback(resolver.close)
    client = FederationClient(
        settings.server_name,
        own_keys,
        resolver,
        connections,
        may_contact=settings.policy.admits,
        observer=client_observer,
        witness=witness,
    )
    key_ring = KeyRing(
        settings.server_name,
        own_keys,
        client,
        database,
        now_ms=now_ms,
        notaries=settings.notaries,
        observer=key_observer,
    )
    stack.push_async_callback(key_ring.close)
    web = PublicWeb(dns, user_agent=user_agent, authorities=settings.authorities)
    stack.push_async_callback(web.close)
    return WaysOut(resolver, connections, client, key_ring, web)
