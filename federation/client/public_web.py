"""Fetches URLs that other servers refer to, without credentials and only from public addresses."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
from yarl import URL

from federation.client.client import StreamedResponse
from federation.client.dns import AddressResolver, Dns
from federation.client.errors import PeerMalformed, PeerTimedOut, peer_error
from federation.matrix.networks import NOT_PUBLIC, Network
from storage.errors import LocalError

# Seconds: to connect, between two chunks, and for the whole response.
CONNECT_TIMEOUT: Final = 10.0
IDLE: Final = 30.0
TIMEOUT: Final = 600.0


class PublicWeb:
    """`blocked`: networks to which no connection is made. `authorities`: a PEM file of certificate
    authorities to trust besides the system's."""

    def __init__(
        self, dns: Dns, *, user_agent: str, authorities: Path | None = None, blocked: Sequence[Network] = NOT_PUBLIC
    ) -> None:
        """Needs a running event loop. Raises LocalError if the authorities cannot be read."""
        self._context = _context(authorities)
        self._addresses = AddressResolver(dns, blocked)
        self._session = aiohttp.ClientSession(
            # Names are resolved for each connection, so that the connection goes to the address that was
            # checked.
            connector=aiohttp.TCPConnector(limit=20, limit_per_host=4, resolver=self._addresses),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": user_agent, "Accept-Encoding": "identity"},
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_TIMEOUT, sock_read=IDLE),
        )

    @asynccontextmanager
    async def stream(self, url: URL, peer: str) -> AsyncIterator[StreamedResponse]:
        """Fetch `url`, which `read_location` has validated. Errors are attributed to `peer`, which has
        provided the URL."""
        assert url.scheme == "https", "read_location only accepts https"
        deadline = asyncio.timeout(TIMEOUT)
        try:
            async with deadline, await self._get(url, peer) as response:
                if response.status != 200:
                    raise PeerMalformed(peer, f"provided a URL that answered {response.status}")
                if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                    raise PeerMalformed(
                        peer, "provided a URL that answered with a compressed body, which was not requested"
                    )
                yield StreamedResponse(peer, response)
        except TimeoutError as error:
            if not deadline.expired():
                raise  # from the code that reads the response
            raise PeerTimedOut(peer, "provided a URL that took too long to answer") from error

    async def close(self) -> None:
        await self._session.close()
        await self._addresses.close()

    async def _get(self, url: URL, peer: str) -> aiohttp.ClientResponse:
        try:
            return await self._session.get(url, allow_redirects=False, ssl=self._context)
        except (aiohttp.ClientError, OSError) as error:
            raise peer_error(peer, error) from error


def _context(authorities: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if authorities is not None:
            context.load_verify_locations(authorities)
    except (OSError, ssl.SSLError) as error:
        raise LocalError(
            f"Failed to read the certificate authorities in {authorities}: {error.strerror or error}.",
            "Name a PEM file of certificates that this program can read.",
        ) from None
    return context
