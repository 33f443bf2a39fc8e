"""Gathers the facts about a server, like a federation tester: every step and every address separately,
without caches.

`federation.peers.check.report` evaluates them.
"""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import aiohttp
from yarl import URL

from federation.client.client import FederationClient, StreamedResponse
from federation.client.connections import PeerConnections
from federation.client.errors import PeerMalformed, peer_error, refusal
from federation.client.peer_settings import ConfiguredPeers
from federation.client.requests import request_target
from federation.client.server_discovery import Candidate, Route
from federation.homeserver import Homeserver, HomeserverSettings
from federation.keys.key_documents import ServerKey
from federation.keys.server_keys import KeyNeed
from federation.matrix.canonical_json import NotJson, decode
from federation.matrix.errors import PeerError
from federation.matrix.identifiers import is_server_name
from federation.peers.check.certificate import UNTRUSTED
from federation.peers.check.connectivity import TIMEOUT, pinned_context, tls_handshake, unreachable, unverified_context
from federation.peers.check.facts import AddressProbe, Facts, ProbeResponse, ServerStatus, SignedProbe, TlsHandshake
from storage.database import Database
from storage.federation.server_keys import fetch_keys

RESPONSE_TIMEOUT: Final = 15.0
"""Seconds for a response."""
SIGNED_TIMEOUT: Final = 30.0
"""Seconds for the response to a signed request. The server may have to fetch this node's keys first."""
MAX_ADDRESSES: Final = 16
CONCURRENT_PROBES: Final = 8
MAX_RESPONSE_BYTES: Final = 256 * 1024
"""Bytes of a response."""

_KEYS: Final = "/_matrix/key/v2/server"
_VERSION: Final = "/_matrix/federation/v1/version"
# There is no such event. Its id explains the request in the logs of the other server.
_EVENT: Final = request_target(
    "/_matrix/federation/v1/event/{eventId}", eventId="$palaver-asks-whether-its-signature-is-believed"
)


async def gather_facts(homeserver: Homeserver, server: str) -> Facts:
    """Gather the facts about a server, which may be this one. Failures of the server are facts, not
    exceptions."""
    settings = homeserver.settings
    status = _server_status(settings, server)
    facts = Facts(server, settings.server_name, homeserver.now_ms(), status)
    if not is_server_name(server):
        return facts
    trace = await homeserver.resolver.trace(server)
    facts = replace(facts, queries=trace.queries, route=trace.route)
    if not isinstance(trace.route, Route):
        return facts
    unresolved, found = await _addresses(homeserver.connections, server, trace.route)
    prober = _AddressProber(homeserver, server, status, trace.route)
    probes = await asyncio.gather(*(prober.probe(probe) for probe in found[:MAX_ADDRESSES]))
    facts = replace(
        facts,
        names_without_address=unresolved,
        probes=tuple(probes),
        addresses_left_out=max(0, len(found) - MAX_ADDRESSES),
    )
    if status.is_self:
        return replace(facts, own_keys=await _own_keys(homeserver))
    facts = replace(facts, known_keys=await _known_keys(homeserver.database, server))
    if status.is_admitted and any(probe.answers_as(server) for probe in probes):
        facts = replace(facts, signed=await _signed_request(homeserver.client, server))
    return facts


def _server_status(settings: HomeserverSettings, server: str) -> ServerStatus:
    peers = ConfiguredPeers(settings.peers, settings.added_peers)
    peer = peers.of(server)
    return ServerStatus(
        is_self=server == settings.server_name,
        is_admitted=settings.policy.admits(server),
        is_configured=peers.is_configured(server),
        address=peer.address,
        is_plain=peer.plain,
    )


async def _addresses(
    connections: PeerConnections, server: str, route: Route
) -> tuple[tuple[Candidate, ...], list[AddressProbe]]:
    """The candidates that cannot be resolved, and the addresses of the others."""
    unresolved, probes = [], []
    for candidate in route.candidates:
        try:
            async with asyncio.timeout(TIMEOUT):
                found = await connections.addresses(server, candidate.host)
        except (OSError, TimeoutError):
            unresolved.append(candidate)
        else:
            probes += [AddressProbe(candidate, address, is_blocked) for address, is_blocked in found.items()]
    return tuple(unresolved), probes


async def _known_keys(database: Database, server: str) -> dict[str, ServerKey]:
    async with database.transaction(readonly=True) as connection:
        rows = await fetch_keys(connection, [server])
    return {
        row.key_id: ServerKey(
            row.server_name, row.key_id, row.public_key, row.valid_until_ts, row.expired_ts, row.fetched_at, row.source
        )
        for row in rows
    }


async def _own_keys(homeserver: Homeserver) -> dict[str, bytes]:
    """This node's keys. The key ring returns all of them, whichever key id is requested."""
    own = homeserver.settings.server_name
    keys = await homeserver.key_ring.keys_for([KeyNeed(own, "ed25519:own")])
    return {key_id: key.public for key_id, key in keys[own].items()}


async def _signed_request(client: FederationClient, server: str) -> SignedProbe:
    try:
        await client.request("GET", server, _EVENT, timeout=SIGNED_TIMEOUT)
    except PeerError as error:
        return SignedProbe(error)
    return SignedProbe()


class _AddressProber:
    """Tests the addresses of one server, each on connections of its own."""

    def __init__(self, homeserver: Homeserver, server: str, status: ServerStatus, route: Route) -> None:
        self._homeserver = homeserver
        self._server = server
        self._server_status = status
        self._route = route
        self._slots = asyncio.Semaphore(CONCURRENT_PROBES)
        self._headers = {
            "Host": route.host_header,
            "User-Agent": f"Palaver/{homeserver.settings.software_version}",
            "Accept-Encoding": "identity",
        }

    async def probe(self, probe: AddressProbe) -> AddressProbe:
        # Other servers must not direct this node into blocked networks. Its own addresses may be in one.
        if probe.is_blocked and not self._server_status.is_self:
            return probe
        async with self._slots:
            problem = await unreachable(probe)
            if problem is not None:
                return replace(probe, unreachable=problem)
            context = self._homeserver.connections.ssl_context(self._server)
            if not self._server_status.is_plain:
                handshake, context = await self._tls_handshake(probe, context)
                probe = replace(probe, handshake=handshake)
                if handshake.version is None:
                    return probe
            keys = await self._request(probe, _KEYS, context)
            version = None if keys.problem is not None else await self._request(probe, _VERSION, context)
            return replace(probe, keys=keys, version=version)

    async def _tls_handshake(self, probe: AddressProbe, context: ssl.SSLContext) -> tuple[TlsHandshake, ssl.SSLContext]:
        """Test the TLS handshake. Also returns the context with which it can be repeated."""
        name = self._route.certificate_name
        handshake, _ = await tls_handshake(probe, name, context)
        if handshake.code is not None:
            seen, der = await tls_handshake(probe, name, unverified_context())
            handshake = replace(handshake, certificate=seen.certificate)
            if self._server_status.is_self and handshake.code in UNTRUSTED and der is not None:
                # Peers may trust this node's private authority. Everything else about the certificate must be
                # valid.
                context = pinned_context(der)
                handshake, _ = await tls_handshake(probe, name, context)
                handshake = replace(handshake, trusted_by_system=False, certificate=seen.certificate)
        elif self._server_status.is_self and handshake.version is not None:
            strict, _ = await tls_handshake(probe, name, ssl.create_default_context())
            handshake = replace(handshake, trusted_by_system=strict.version is not None)
        return handshake, context

    async def _request(self, probe: AddressProbe, path: str, context: ssl.SSLContext) -> ProbeResponse:
        """Send an unsigned request over a connection to exactly this address."""
        scheme = "http" if self._server_status.is_plain else "https"
        plain = self._server_status.is_plain
        sent_at = self._homeserver.now_ms()
        try:
            async with (
                asyncio.timeout(RESPONSE_TIMEOUT),
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(force_close=True),
                    cookie_jar=aiohttp.DummyCookieJar(),
                    auto_decompress=False,
                ) as session,
                session.get(
                    URL(f"{scheme}://{probe.name}{path}", encoded=True),
                    headers=self._headers,
                    allow_redirects=False,
                    ssl=context,
                    server_hostname=None if plain else self._route.certificate_name,
                ) as response,
            ):
                received_at = self._homeserver.now_ms()
                content = await self._read(response)
                date = response.headers.get("Date")
                return ProbeResponse(None, content, date, sent_at, received_at)
        except PeerError as error:
            return ProbeResponse(error)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return ProbeResponse(peer_error(self._server, error))

    async def _read(self, response: aiohttp.ClientResponse) -> Mapping[str, object]:
        body = b"".join([chunk async for chunk in StreamedResponse(self._server, response).chunks(MAX_RESPONSE_BYTES)])
        try:
            content = decode(body)
        except NotJson:
            content = None
        if response.status != 200:
            raise refusal(self._server, response.status, content, response.headers)
        if not isinstance(content, dict):
            raise PeerMalformed(self._server, "answered with something that is not a JSON object")
        return content
