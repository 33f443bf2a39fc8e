"""Connections to other servers: verified TLS, a pool with few connections per server, no blocked addresses.

Server-server API, "TLS": "Servers should respect SNI when making requests where possible: a SNI should be
sent for the certificate which is expected, unless that certificate is expected to be an IP address".
"""

import io
import ssl
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Final

import aiohttp
from yarl import URL

from federation.client.dns import AddressResolver, Dns
from federation.client.errors import NOT_CONNECTED, PeerUnreachable, peer_error
from federation.client.peer_settings import DEFAULT_SETTINGS, ConfiguredPeers, Trust
from federation.client.server_discovery import Candidate, Route
from federation.matrix.networks import Network
from storage.errors import LocalError

# Seconds for a TCP connection and its handshake: there must be time left to try the next candidate.
CONNECT_TIMEOUT: Final = 10.0
# Seconds for which an idle connection is kept. Synapse and most proxies close theirs after 60 or 75.
KEEPALIVE: Final = 55.0
MAX_CONNECTIONS: Final = 500
MAX_CONNECTIONS_PER_HOST: Final = 16
# Bytes. aiohttp warns when a larger body is passed as bytes, since it would write it in one piece.
LARGE_BODY: Final = 512 * 1024


class PeerConnections:
    """All connections of this server to other servers.

    `authorities`: a PEM file of certificate authorities to trust besides the system's. `blocked`: networks to
    which no connection is made, except for configured peers, whose addresses the operator knows.
    """

    def __init__(
        self,
        dns: Dns,
        peers: ConfiguredPeers,
        *,
        user_agent: str,
        authorities: Path | None = None,
        blocked: Sequence[Network] = (),
    ) -> None:
        """Needs a running event loop. Raises LocalError if a certificate cannot be read."""
        self._peers = peers
        self._user_agent = user_agent
        self._authorities = authorities
        self._contexts = self._load()
        self._configured = _SessionPool(AddressResolver(dns), user_agent)
        self._unconfigured = _SessionPool(AddressResolver(dns, blocked), user_agent)

    def reload(self) -> None:
        """Read the certificates again, for new connections. Raises LocalError and keeps the old ones if one
        cannot be read."""
        self._contexts = self._load()

    async def send(
        self,
        peer: str,
        route: Route,
        method: str,
        uri: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        idle: float | None = None,
    ) -> aiohttp.ClientResponse:
        """Send a request to the first candidate that accepts a connection, and return the response before its
        body is read. The caller closes it.

        `idle`: the maximum number of seconds without a byte. Raises `PeerError`.
        """
        problem: Exception | None = None
        for candidate in route.candidates:
            try:
                return await self._send_to(peer, route, candidate, method, uri, headers, body, idle)
            except NOT_CONNECTED as error:
                problem = error
            except (aiohttp.ClientError, OSError) as error:
                raise peer_error(peer, error) from error
        assert problem is not None, "a route has candidates"
        raise peer_error(peer, problem) from problem

    async def get(self, url: URL, peer: str) -> aiohttp.ClientResponse:
        """GET a public URL without signature or client certificate. Redirects are not followed."""
        assert url.scheme == "https", "a well-known is only fetched over https"
        pool = self._pool_of(peer)
        pool.require_allowed(peer, url.raw_host or "")
        # The URL may be on any host, so the peer's own TLS settings do not apply.
        context = self._contexts[DEFAULT_SETTINGS.trust]
        try:
            return await pool.session.get(url, allow_redirects=False, ssl=context)
        except (aiohttp.ClientError, OSError) as error:
            raise peer_error(peer, error) from error

    def ssl_context(self, peer: str) -> ssl.SSLContext:
        """The TLS settings for a server, for the peer check."""
        return self._context_of(peer, self._peers.of(peer).trust)

    async def addresses(self, peer: str, host: str) -> dict[str, bool]:
        """The addresses of a candidate of that server, and whether each is blocked. Raises OSError if it has
        none."""
        addresses = self._pool_of(peer).addresses
        if _is_address(host):
            try:
                found = [str(ip_address(host))]
            except ValueError:
                raise OSError(f"{host} is not an address") from None
        else:
            found = [one["host"] for one in await addresses.resolve_unfiltered(host)]
        return {address: addresses.is_blocked(address) for address in found}

    async def close(self) -> None:
        await self._configured.close()
        await self._unconfigured.close()

    def _pool_of(self, peer: str) -> "_SessionPool":
        return self._configured if self._peers.is_configured(peer) else self._unconfigured

    async def _send_to(
        self,
        peer: str,
        route: Route,
        candidate: Candidate,
        method: str,
        uri: str,
        headers: Mapping[str, str],
        body: bytes | None,
        idle: float | None,
    ) -> aiohttp.ClientResponse:
        settings = self._peers.of(peer)
        pool = self._pool_of(peer)
        pool.require_allowed(peer, candidate.host)
        host = f"[{candidate.host}]" if ":" in candidate.host else candidate.host
        scheme = "http" if settings.plain else "https"
        context = self._context_of(peer, settings.trust)

        async def once() -> aiohttp.ClientResponse:
            return await pool.session.request(
                method,
                # The URI is signed as it is. yarl would decode some of its escapes.
                URL(f"{scheme}://{host}:{candidate.port}{uri}", encoded=True),
                headers={**headers, "Host": route.host_header},
                data=io.BytesIO(body) if body is not None and len(body) > LARGE_BODY else body,
                allow_redirects=False,
                ssl=context,
                server_hostname=None if settings.plain else route.certificate_name,
                timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT, sock_read=idle),
            )

        try:
            return await once()
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientConnectionResetError):
            # The peer was closing this idle connection. aiohttp retries the other methods by itself; the POST
            # requests of federation are queries, so they can be retried as well.
            if method != "POST":
                raise
            return await once()

    def _context_of(self, peer: str, trust: Trust) -> ssl.SSLContext:
        """The TLS context of a peer. For a peer that was added later it is created when it is first
        needed."""
        context = self._contexts.get(trust)
        if context is None:
            wanted = {DEFAULT_SETTINGS.trust, *self._peers.trusts()}
            self._contexts = {one: made for one, made in self._contexts.items() if one in wanted}
            try:
                context = self._contexts[trust] = _context(self._authorities, trust)
            except LocalError as error:
                problem = "cannot be connected to, because this server cannot read the certificates to trust for it"
                raise PeerUnreachable(peer, problem) from error
        return context

    def _load(self) -> dict[Trust, ssl.SSLContext]:
        trusts = {DEFAULT_SETTINGS.trust, *self._peers.trusts()}
        return {trust: _context(self._authorities, trust) for trust in trusts}


class _SessionPool:
    """An HTTP session whose connections share one list of blocked networks."""

    def __init__(self, addresses: AddressResolver, user_agent: str) -> None:
        self.addresses = addresses
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=MAX_CONNECTIONS,
                limit_per_host=MAX_CONNECTIONS_PER_HOST,
                keepalive_timeout=KEEPALIVE,
                ttl_dns_cache=60,
                resolver=addresses,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            # A small compressed response could expand until it fills the memory.
            headers={"User-Agent": user_agent, "Accept-Encoding": "identity"},
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT),
        )

    def require_allowed(self, peer: str, host: str) -> None:
        """Check a host that is an address. aiohttp does not resolve it, so `AddressResolver` cannot check
        it."""
        if not _is_address(host):
            return
        try:
            address = str(ip_address(host.strip("[]")))
        except ValueError:
            # Such as 127.1, which the system would complete.
            raise PeerUnreachable(peer, "could not be resolved to an address") from None
        if self.addresses.is_blocked(address):
            raise PeerUnreachable(peer, "resolves to an address that this server is configured not to connect to")

    async def close(self) -> None:
        await self.session.close()
        await self.addresses.close()


def _is_address(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()


def _context(authorities_for_all: Path | None, trust: Trust) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    for authorities in filter(None, (authorities_for_all, trust.authority)):
        try:
            context.load_verify_locations(authorities)
        except (OSError, ssl.SSLError) as error:
            raise LocalError(
                f"Failed to read the certificate authorities in {authorities}: {error.strerror or error}.",
                "Name a PEM file of certificates that this program can read.",
            ) from None
    if trust.certificates is not None:
        try:
            context.load_verify_locations(cadata=trust.certificates)
        except (ssl.SSLError, ValueError) as error:
            raise LocalError(
                f"The certificates to trust for a single peer are not valid: {error}.",
                "Add the peer again, with a PEM file of certificates.",
            ) from None
    files = trust.client_certificate
    if files is None:
        return context
    try:
        context.load_cert_chain(files.certificate, files.private_key, password=_no_password)
    except (OSError, ssl.SSLError) as error:
        raise LocalError(
            f"The client certificate {files.certificate} cannot be used: {error.strerror or error}.",
            "Name a certificate and its unencrypted private key, both PEM files that this program can read.",
        ) from None
    return context


def _no_password() -> str:
    # Without this, OpenSSL would prompt on the terminal and wait forever.
    return ""
