"""Several servers on loopback with names of their own, and a client that finds them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from federation.client.client import FederationClient
from federation.client.connections import PeerConnections
from federation.client.dns import Dns
from federation.client.peer_settings import CertificateFiles, ConfiguredPeers, PeerSettings
from federation.client.resolver import Resolver
from federation.keys.server_keys import LocalKeys, key_from_seed
from federation.matrix.networks import Network
from federation.observer import HomeserverObserver, Outcome
from tests.support.loopback_server import Certificates, Handler, LoopbackServer
from tests.support.name_server import NameServer

OWN_NAME = "us.test"
OWN_KEYS = LocalKeys(key_from_seed("own", b"o" * 32))


@dataclass
class Clock:
    """A clock in seconds that the test advances."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Counted(HomeserverObserver):
    """Records the client's metrics."""

    ended: list[tuple[str, str, Outcome]] = field(default_factory=list)

    def request_ended(self, endpoint: str, method: str, outcome: Outcome, seconds: float) -> None:
        assert seconds >= 0
        self.ended.append((endpoint, method, outcome))


@dataclass
class Reach:
    """A client with all its parts."""

    client: FederationClient
    resolver: Resolver
    connections: PeerConnections
    counted: Counted


@dataclass
class Neighbourhood:
    names: NameServer
    certificates: Certificates
    stack: AsyncExitStack
    clock: Clock = field(default_factory=Clock)

    async def server(
        self,
        handler: Handler,
        *names: str,
        files: CertificateFiles | None = None,
        client_authority: Path | None = None,
        plain: bool = False,
    ) -> LoopbackServer:
        """Start a server with a certificate for these names, which resolve to it; it has a port of its
        own."""
        for name in names:
            self.names.add(name, "A", "127.0.0.1")
        chosen = None if plain else files or self.certificates.make(*names)
        server = LoopbackServer(handler)
        return await self.stack.enter_async_context(server.running(chosen, client_authority=client_authority))

    def reach(
        self,
        peers: Mapping[str, PeerSettings] | None = None,
        *,
        added: Mapping[str, PeerSettings] | None = None,
        well_known_port: int = 1,
        blocked: Sequence[Network] = (),
        may_contact: Callable[[str], bool] = lambda _: True,
        dns_timeout: float = 5.0,
    ) -> Reach:
        """Return a client that trusts all certificates issued so far. Nothing listens on port 1."""
        dns = Dns([("127.0.0.1", self.names.port)], timeout=dns_timeout)
        settings = ConfiguredPeers(peers, added)
        trusted = self.certificates.trusted
        connections = PeerConnections(
            dns, settings, user_agent="test", authorities=trusted if trusted.exists() else None, blocked=blocked
        )
        resolver = Resolver(connections, dns, settings, well_known_port=well_known_port, clock=self.clock)
        counted = Counted()
        client = FederationClient(
            OWN_NAME, lambda: OWN_KEYS, resolver, connections, may_contact=may_contact, observer=counted
        )
        self.stack.push_async_callback(connections.close)
        self.stack.push_async_callback(resolver.close)
        return Reach(client, resolver, connections, counted)


def answering(content: Any = None, status: int = 200, **headers: str) -> Handler:
    """Return a handler with a fixed response: bytes unchanged, other values as JSON."""

    async def answer(_: web.Request) -> web.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(content, bytes):
            return web.Response(body=content, status=status, headers=named)
        return web.json_response({} if content is None else content, status=status, headers=named)

    return answer
