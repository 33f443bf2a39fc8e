"""Connections to other servers: TLS that is checked, few to each, used again, and never to a blocked address.

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

from federation.client.dns import Addresses, Dns
from federation.client.errors import NOT_CONNECTED, PeerUnreachable, peer_error
from federation.client.peer_settings import NOTHING_SPECIAL, Peers, Trust
from federation.client.server_discovery import Candidate, Route
from federation.matrix.networks import Network
from storage.errors import LocalError

# Seconds for a TCP connection and its handshake: the next candidate must get its turn in time.
CONNECT: Final = 10.0
# Seconds that an unused connection is kept. Synapse and most proxies close theirs after 60 or 75.
KEEP: Final = 55.0
MOST_CONNECTIONS: Final = 500
MOST_TO_ONE: Final = 16
# aiohttp writes a larger body in one piece, and warns of it.
LARGE_BODY: Final = 512 * 1024


class PeerConnections:
    """All of a node's connections to others. `authorities`: certificates to trust beside the system's.

    `blocked`: networks that no stranger may lead us into. Where the servers are that the configuration names
    is known to whoever wrote it, and they may be anywhere.
    """

    def __init__(
        self,
        dns: Dns,
        peers: Peers,
        *,
        user_agent: str,
        authorities: Path | None = None,
        blocked: Sequence[Network] = (),
    ) -> None:
        """Raises LocalError when a certificate cannot be read. There must be a running event loop."""
        self._peers = peers
        self._user_agent = user_agent
        self._authorities = authorities
        self._contexts = self._load()
        self._known = _Way(Addresses(dns), user_agent)
        self._strangers = _Way(Addresses(dns, blocked), user_agent)

    def reload(self) -> None:
        """Read the certificates again, for new connections. Raises LocalError, and the old ones stay then."""
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
        """The answer's head, from the first candidate that takes the connection. The caller closes it.

        `idle`: seconds that may pass without a byte. Raises `PeerError`.
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
        """A page of the public web, without signature or client certificate; redirects are not followed."""
        assert url.scheme == "https", "a well-known is never read in the open"
        way = self._way(peer)
        way.refuse_blocked(peer, url.raw_host or "")
        # The page is the host's and not the peer's: it may stand anywhere.
        context = self._contexts[NOTHING_SPECIAL.trust]
        try:
            return await way.session.get(url, allow_redirects=False, ssl=context)
        except (aiohttp.ClientError, OSError) as error:
            raise peer_error(peer, error) from error

    def context(self, peer: str) -> ssl.SSLContext:
        """What hands are shaken with, for whoever examines that server."""
        return self._context_of(peer, self._peers.of(peer).trust)

    async def addresses(self, peer: str, host: str) -> dict[str, bool]:
        """Where a candidate of that server leads, and of each address whether it is blocked. Raises OSError
        where it leads nowhere."""
        addresses = self._way(peer).addresses
        if _is_taken_for_an_address(host):
            try:
                found = [str(ip_address(host))]
            except ValueError:
                raise OSError(f"{host} is no address") from None
        else:
            found = [one["host"] for one in await addresses.find(host)]
        return {address: addresses.is_blocked(address) for address in found}

    async def close(self) -> None:
        await self._known.close()
        await self._strangers.close()

    def _way(self, peer: str) -> "_Way":
        return self._known if self._peers.know(peer) else self._strangers

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
        way = self._way(peer)
        way.refuse_blocked(peer, candidate.host)
        host = f"[{candidate.host}]" if ":" in candidate.host else candidate.host
        scheme = "http" if settings.plain else "https"
        context = self._context_of(peer, settings.trust)

        async def once() -> aiohttp.ClientResponse:
            return await way.session.request(
                method,
                # Encoded already, and signed as it is: yarl would undo some of the escapes.
                URL(f"{scheme}://{host}:{candidate.port}{uri}", encoded=True),
                headers={**headers, "Host": route.host_header},
                data=io.BytesIO(body) if body is not None and len(body) > LARGE_BODY else body,
                allow_redirects=False,
                ssl=context,
                server_hostname=None if settings.plain else route.certificate_name,
                timeout=aiohttp.ClientTimeout(sock_connect=CONNECT, sock_read=idle),
            )

        try:
            return await once()
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientConnectionResetError):
            # A kept connection that the peer was just closing. aiohttp itself tries the other methods again;
            # federation's POSTs ask and change nothing.
            if method != "POST":
                raise
            return await once()

    def _context_of(self, peer: str, trust: Trust) -> ssl.SSLContext:
        """For a server that was added later it is made when it is needed first."""
        context = self._contexts.get(trust)
        if context is None:
            wanted = {NOTHING_SPECIAL.trust, *self._peers.trusts()}
            self._contexts = {one: made for one, made in self._contexts.items() if one in wanted}
            try:
                context = self._contexts[trust] = _context(self._authorities, trust)
            except LocalError as error:
                problem = "cannot be connected to, because this node cannot read the certificates to believe"
                raise PeerUnreachable(peer, problem) from error
        return context

    def _load(self) -> dict[Trust, ssl.SSLContext]:
        trusts = {NOTHING_SPECIAL.trust, *self._peers.trusts()}
        return {trust: _context(self._authorities, trust) for trust in trusts}


class _Way:
    """Connections under one rule on where they may lead."""

    def __init__(self, addresses: Addresses, user_agent: str) -> None:
        self.addresses = addresses
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=MOST_CONNECTIONS,
                limit_per_host=MOST_TO_ONE,
                keepalive_timeout=KEEP,
                ttl_dns_cache=60,
                resolver=addresses,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Compressed, a small answer could become one that fills the memory.
            headers={"User-Agent": user_agent, "Accept-Encoding": "identity"},
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(sock_connect=CONNECT),
        )

    def refuse_blocked(self, peer: str, host: str) -> None:
        """What aiohttp takes for an address it does not look up, so that `Addresses` never sees it."""
        if not _is_taken_for_an_address(host):
            return
        try:
            address = str(ip_address(host.strip("[]")))
        except ValueError:
            # Such as 127.1, which the system would complete.
            raise PeerUnreachable(peer, "has no address that could be found") from None
        if self.addresses.is_blocked(address):
            raise PeerUnreachable(peer, "leads to an address that this server does not connect to")

    async def close(self) -> None:
        await self.session.close()
        await self.addresses.close()


def _is_taken_for_an_address(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()


def _context(everybodys: Path | None, trust: Trust) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    for authorities in filter(None, (everybodys, trust.authority)):
        try:
            context.load_verify_locations(authorities)
        except (OSError, ssl.SSLError) as error:
            raise LocalError(
                f"The authorities to trust, {authorities}, could not be read: {error.strerror or error}.",
                "Name a file that holds certificates in PEM, readable for this program.",
            ) from None
    if trust.certificates is not None:
        try:
            context.load_verify_locations(cadata=trust.certificates)
        except (ssl.SSLError, ValueError) as error:
            raise LocalError(
                f"The certificates to believe from a peer alone are none: {error}.",
                "Add the peer again, with a file of certificates in PEM.",
            ) from None
    files = trust.client_certificate
    if files is None:
        return context
    try:
        context.load_cert_chain(files.certificate, files.private_key, password=_no_password)
    except (OSError, ssl.SSLError) as error:
        raise LocalError(
            f"The client certificate {files.certificate} cannot be used: {error.strerror or error}.",
            "Name a certificate and its private key, both in PEM, unencrypted and readable for this program.",
        ) from None
    return context


def _no_password() -> str:
    # Without this, OpenSSL would ask on the terminal and wait for ever.
    return ""
