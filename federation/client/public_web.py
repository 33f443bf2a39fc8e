"""Fetches from the public web what another server points to: without credentials, and from nowhere else."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
from yarl import URL

from federation.client.client import PeerStream
from federation.client.dns import Addresses, Dns
from federation.client.errors import PeerMalformed, PeerTimedOut, peer_error
from federation.matrix.networks import NOT_PUBLIC, Network
from storage.errors import LocalError

# Seconds: for a connection, without a byte, and for all of it.
CONNECT: Final = 10.0
IDLE: Final = 30.0
TIMEOUT: Final = 600.0


class PublicWeb:
    """`blocked`: networks that no name may lead to. `authorities`: to trust beside the system's."""

    def __init__(
        self,
        dns: Dns,
        *,
        user_agent: str,
        authorities: Path | None = None,
        blocked: Sequence[Network] = NOT_PUBLIC,
    ) -> None:
        """There must be a running event loop. Raises LocalError when the authorities cannot be read."""
        self._context = _context(authorities)
        self._addresses = Addresses(dns, blocked)
        self._session = aiohttp.ClientSession(
            # Asked anew for each connection, so that what was checked is what is connected to.
            connector=aiohttp.TCPConnector(limit=20, limit_per_host=4, resolver=self._addresses),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": user_agent, "Accept-Encoding": "identity"},
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(sock_connect=CONNECT, sock_read=IDLE),
        )

    @asynccontextmanager
    async def stream(self, url: URL, peer: str) -> AsyncIterator[PeerStream]:
        """The page at `url`, which `read_location` has passed; faults are laid to the `peer` who named it."""
        assert url.scheme == "https", "read_location lets nothing else pass"
        deadline = asyncio.timeout(TIMEOUT)
        try:
            async with deadline, await self._get(url, peer) as response:
                if response.status != 200:
                    raise PeerMalformed(peer, f"led to a place that answered {response.status}")
                if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                    raise PeerMalformed(peer, "led to an answer that is compressed, which was not asked for")
                yield PeerStream(peer, response)
        except TimeoutError as error:
            if not deadline.expired():
                raise  # of whoever reads the stream
            raise PeerTimedOut(peer, "led to a place that took too long to answer") from error

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
            f"The authorities to trust, {authorities}, could not be read: {error.strerror or error}.",
            "Name a file that holds certificates in PEM, readable for this program.",
        ) from None
    return context
