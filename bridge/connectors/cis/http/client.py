"""Sends single events to published nodes."""

import io
from typing import Any, Final

import aiohttp

from bridge.connectors.cis.protocol.error_codes import SendResult, TemporaryFailure, send_result
from federation.matrix.canonical_json import NotJson, decode

PATH: Final = "/_cis/v1/event/receive"
TIMEOUT: Final = 30.0
_LONGEST_ANSWER: Final = 64 * 1024


class EventClient:
    """Sends to the configured URLs and follows no redirects. `close` must be called."""

    def __init__(self, user_agent: str, *, timeout: float = TIMEOUT) -> None:
        self._user_agent = user_agent
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def send(self, url: str, body: bytes) -> SendResult:
        if self._session is None:
            # Opened on first use: most nodes have no published peers.
            self._session = self._open()
        target = f"{url.rstrip('/')}{PATH}"
        try:
            async with self._session.post(target, data=io.BytesIO(body), allow_redirects=False) as response:
                return send_result(response.status, await _read(response))
        except TimeoutError:
            return TemporaryFailure("did not respond in time")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return TemporaryFailure(f"could not be reached ({type(error).__name__})")

    def _open(self) -> aiohttp.ClientSession:
        headers = {"User-Agent": self._user_agent, "Content-Type": "application/json", "Accept-Encoding": "identity"}
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, limit_per_host=16),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=self._timeout),
        )


async def _read(response: aiohttp.ClientResponse) -> Any:
    """Return the response's JSON; None if it has none or is too long."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(_LONGEST_ANSWER):
        body += chunk
        if len(body) > _LONGEST_ANSWER:
            return None
    try:
        return decode(bytes(body))
    except NotJson:
        return None
