"""Whose a token is: the homeserver is asked, which gave it.

One question to the homeserver, in the name of the registration. Whatever comes of it is an answer.
"""

from typing import Any, Final

import aiohttp
from aiohttp import hdrs
from mautrix.api import Method

from appservice.homeserver.client import HomeserverClient
from appservice.registration.check import WHOAMI, Answer, Heard, NoAnswer
from federation.matrix.canonical_json import NotJson, decode
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import is_user_id

USERINFO: Final = "/_matrix/federation/v1/openid/userinfo"
_NOBODY: Final = frozenset({"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_FORBIDDEN", "M_UNAUTHORIZED"})


async def owner(client: HomeserverClient, token: str) -> str | None:
    """The user who has this access token; None if nobody has. A guest of the homeserver, who has shown
    nothing to it, is nobody. Raises `MatrixError` and `HomeserverAway`."""
    found = await _asked(client, WHOAMI, token)
    user = None if found is None or found.get("is_attached") is True else found.get("user_id")
    return user if isinstance(user, str) and is_user_id(user) else None


async def owner_of_openid(client: HomeserverClient, token: str) -> str | None:
    """The same of a token by which a user shows to others who he is, and nothing else. "Exchanges an OpenID
    access token for information about the user who generated the token": the specification has it in the
    address."""
    found = await _asked(client, USERINFO, token, {"access_token": token})
    user = None if found is None else found.get("sub")
    return user if isinstance(user, str) and is_user_id(user) else None


async def _asked(
    client: HomeserverClient, path: str, token: str, query: dict[str, str] | None = None
) -> dict[str, object] | None:
    try:
        return await client.ask(Method.GET, path, token=token, query=query)
    except MatrixError as refused:
        if refused.errcode in _NOBODY or refused.status in (401, 403):
            return None
        raise


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
