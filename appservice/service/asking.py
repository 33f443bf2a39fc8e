"""One question to the homeserver, in the name of the registration. Whatever comes of it is an answer."""

from typing import Any, Final

import aiohttp
from aiohttp import hdrs

from appservice.homeserver_check import Answer, Heard, NoAnswer
from federation.canonical_json import NotJson, decode

# The homeserver gives its own request for a ping some time, and then answers.
_TIMEOUT: Final = aiohttp.ClientTimeout(total=45, sock_connect=10)
MOST_BYTES: Final = 1024 * 1024


async def ask(
    session: aiohttp.ClientSession, method: str, url: str, token: str | None = None, body: Any = None
) -> Heard:
    headers = {} if token is None else {hdrs.AUTHORIZATION: f"Bearer {token}"}
    try:
        async with session.request(
            # A redirect would take the token elsewhere.
            method, url, json=body, headers=headers, timeout=_TIMEOUT, allow_redirects=False,
        ) as response:  # fmt: skip
            data = await _read(response)
    except TimeoutError:
        return NoAnswer("it took too long")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return NoAnswer(_reason(error))
    try:
        found = decode(data)
    except NotJson:
        found = None
    return Answer(response.status, found if isinstance(found, dict) else {})


async def _read(response: aiohttp.ClientResponse) -> bytes:
    data = b""
    async for piece in response.content.iter_chunked(64 * 1024):
        data += piece
        if len(data) > MOST_BYTES:
            raise ValueError("it says far too much")
    return data


def _reason(error: Exception) -> str:
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    text = (inner.strerror if isinstance(inner, OSError) else None) or str(inner) or type(inner).__name__
    return "".join(one for one in text.splitlines()[0] if one.isprintable())[:200]
