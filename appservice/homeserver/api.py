"""mautrix's `HTTPAPI`, with what it does on the wire done anew.

As it comes it reads any amount of an answer, follows a redirect and takes the token along, writes what is
said into a log, and makes one error of many. What is kept is how addresses are made of paths.

The homeserver of which this node is a guest does not answer.
"""

from collections.abc import AsyncIterator
from typing import Any, Final

import aiohttp
from mautrix.api import HTTPAPI, Method
from yarl import URL

from federation.client.errors import connection_failure as unreachable
from storage.connect import ConnectionLost
from storage.errors import LocalError


class HomeserverAway(ConnectionLost):
    """Whether it did what it was asked for is not known. Whoever goes on by itself after its database was
    away does so after this too: nothing is lost by it, and the order is kept."""

    def __init__(self, url: str, reason: str) -> None:
        LocalError.__init__(
            self,
            f"The homeserver at {url} does not answer ({reason}).",
            "Palaver goes on by itself once it answers again; look there if it does not.",
        )


MIB: Final = 1024 * 1024
MOST_BYTES: Final = 8 * MIB
"""Of an answer that is one object."""
CONNECT: Final = 10.0
CHUNK: Final = 64 * 1024

# Who waits for how long says whoever asks.
_TIMEOUT: Final = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT)


class TooMuch(ValueError):
    """More than anybody wants to read."""

    def __init__(self) -> None:
        super().__init__("it says far too much")


class HomeserverApi(HTTPAPI):
    """`request` gives the status and the bytes of whatever is answered. Raises `HomeserverAway`."""

    def __init__(self, session: aiohttp.ClientSession, url: str, *, most_bytes: int = MOST_BYTES) -> None:
        # The token comes with each request: there may be several.
        super().__init__(URL(url), "", client_session=session, default_retry_count=0)
        self._url = url
        self._most_bytes = most_bytes

    async def _send(
        self,
        method: Method,
        url: URL,
        content: Any,
        query_params: dict[str, str],
        headers: dict[str, str],
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
            raise HomeserverAway(self._url, reason(error)) from error

    def _log_request(self, *args: Any, **kwargs: Any) -> None:
        """What is said is nobody's but those in the room."""

    def _log_request_done(self, *args: Any, **kwargs: Any) -> None:
        """It is counted by whoever asked."""


async def read_all(response: aiohttp.ClientResponse, limit: int) -> bytes:
    if response.content_length is not None and response.content_length <= CHUNK:
        # As nearly all are: it comes in one piece.
        return await response.read()
    return b"".join([piece async for piece in read_pieces(response, limit)])


async def read_pieces(response: aiohttp.ClientResponse, limit: int) -> AsyncIterator[bytes]:
    taken = 0
    async for piece in response.content.iter_chunked(CHUNK):
        taken += len(piece)
        if taken > limit:
            raise TooMuch
        yield piece


def reason(error: Exception) -> str:
    """Why there is no answer, as part of a sentence. No word of what was sent is in it."""
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, aiohttp.ClientConnectorError):
        return unreachable(error.os_error)
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError | OSError):
        return "it broke off the connection"
    if isinstance(error, aiohttp.ClientResponseError):
        return "what it says is not HTTP"
    text = str(error) or type(error).__name__
    return "".join(one for one in text.splitlines()[0] if one.isprintable())[:200]
