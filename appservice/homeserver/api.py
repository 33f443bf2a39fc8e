"""mautrix's `HTTPAPI` with its own request code.

The original reads responses of any size, follows redirects with the token, logs contents, and maps different
failures to one error. Only its URL building is reused.
"""

from collections.abc import AsyncIterator
from typing import Any, Final

import aiohttp
from mautrix.api import HTTPAPI, Method
from yarl import URL

from federation.client.errors import connection_failure as unreachable
from storage.connect import ConnectionLost
from storage.errors import LocalError


class HomeserverUnavailable(ConnectionLost):
    """The homeserver did not respond, so it is unknown whether it processed the request. Code that retries
    after a lost database connection (`ConnectionLost`) retries after this error too: nothing is lost, and the
    order is kept."""

    def __init__(self, url: str, reason: str) -> None:
        LocalError.__init__(
            self,
            f"The homeserver at {url} does not respond ({reason}).",
            "Palaver continues automatically once it responds again; check the homeserver if it does not.",
        )


MIB: Final = 1024 * 1024
MAX_BYTES: Final = 8 * MIB
"""Maximum size of a response that is one JSON object."""
CONNECT_TIMEOUT: Final = 10.0
CHUNK: Final = 64 * 1024

# The caller sets the total timeout.
_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT)


class ResponseTooLarge(ValueError):
    """The response exceeds the caller's limit."""

    def __init__(self) -> None:
        super().__init__("its response is too large")


class HomeserverApi(HTTPAPI):
    """`request` returns the status and the body of any response. Raises `HomeserverUnavailable`."""

    def __init__(self, session: aiohttp.ClientSession, url: str, *, most_bytes: int = MAX_BYTES) -> None:
        # Each request passes its token, because there may be several.
        super().__init__(URL(url), "", client_session=session, default_retry_count=0)
        self._url = url
        self._most_bytes = most_bytes

    async def _send(
        self, method: Method, url: URL, content: Any, query_params: dict[str, str], headers: dict[str, str]
    ) -> tuple[Any, aiohttp.ClientResponse]:
        try:
            async with self.session.request(
                method.value,
                url,
                data=content,
                params=query_params,
                headers=headers,
                allow_redirects=False,
                timeout=_TIMEOUT,
            ) as response:
                return (response.status, await read_all(response, self._most_bytes)), response
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise HomeserverUnavailable(self._url, reason(error)) from error

    def _log_request(self, *args: Any, **kwargs: Any) -> None:
        """Contents are for the members of the room, not for the log."""

    def _log_request_done(self, *args: Any, **kwargs: Any) -> None:
        """The caller measures its requests."""


async def read_all(response: aiohttp.ClientResponse, limit: int) -> bytes:
    if response.content_length is not None and response.content_length <= CHUNK:
        # Most responses are this small and arrive in one chunk.
        return await response.read()
    return b"".join([piece async for piece in read_pieces(response, limit)])


async def read_pieces(response: aiohttp.ClientResponse, limit: int) -> AsyncIterator[bytes]:
    taken = 0
    async for piece in response.content.iter_chunked(CHUNK):
        taken += len(piece)
        if taken > limit:
            raise ResponseTooLarge
        yield piece


def reason(error: Exception) -> str:
    """Why there is no response, as part of a sentence. It contains nothing of the request's contents."""
    if isinstance(error, TimeoutError):
        return "the request timed out"
    if isinstance(error, aiohttp.ClientConnectorError):
        return unreachable(error.os_error)
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError | OSError):
        return "it closed the connection"
    if isinstance(error, aiohttp.ClientResponseError):
        return "its response is not HTTP"
    text = str(error) or type(error).__name__
    return "".join(one for one in text.splitlines()[0] if one.isprintable())[:200]
