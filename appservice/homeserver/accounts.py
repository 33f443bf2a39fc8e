"""Asks the homeserver which user an access token or OpenID token belongs to, and makes single requests
outside the client."""

from typing import Any, Final

import aiohttp
from aiohttp import hdrs
from mautrix.api import Method

from appservice.homeserver.client import HomeserverClient
from appservice.registration.check import WHOAMI, NoResponse, RequestResult, Response
from federation.matrix.canonical_json import NotJson, decode
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import is_user_id

USERINFO: Final = "/_matrix/federation/v1/openid/userinfo"
_NO_OWNER_CODES: Final = frozenset({"M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_FORBIDDEN", "M_UNAUTHORIZED"})


async def token_owner(client: HomeserverClient, token: str) -> str | None:
    """Return the user who owns this access token, or None if the token is unknown. A guest account
    (`is_guest`) counts as unknown, because it has not authenticated. Raises `MatrixError` and
    `HomeserverUnavailable`."""
    response = await _query(client, WHOAMI, token)
    user = None if response is None or response.get("is_guest") is True else response.get("user_id")
    return user if isinstance(user, str) and is_user_id(user) else None


async def openid_token_owner(client: HomeserverClient, token: str) -> str | None:
    """Return the user who generated this OpenID token, or None. Such a token proves an identity to third
    parties and grants no other access. "Exchanges an OpenID access token for information about the user who
    generated the token": the specification passes the token in the query."""
    response = await _query(client, USERINFO, token, {"access_token": token})
    user = None if response is None else response.get("sub")
    return user if isinstance(user, str) and is_user_id(user) else None


async def _query(
    client: HomeserverClient, path: str, token: str, query: dict[str, str] | None = None
) -> dict[str, object] | None:
    try:
        return await client.request(Method.GET, path, token=token, query=query)
    except MatrixError as refused:
        if refused.errcode in _NO_OWNER_CODES or refused.status in (401, 403):
            return None
        raise


# The homeserver waits for its own ping request to time out before it responds.
_TIMEOUT: Final = aiohttp.ClientTimeout(total=45, sock_connect=10)
MAX_BYTES: Final = 1024 * 1024


async def ask(
    session: aiohttp.ClientSession, method: str, url: str, token: str | None = None, body: Any = None
) -> RequestResult:
    headers = {} if token is None else {hdrs.AUTHORIZATION: f"Bearer {token}"}
    try:
        async with session.request(
            # Following a redirect would send the token to another server.
            method, url, json=body, headers=headers, timeout=_TIMEOUT, allow_redirects=False,
        ) as response:  # fmt: skip
            data = await _read(response)
    except TimeoutError:
        return NoResponse("the request timed out")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return NoResponse(_reason(error))
    try:
        body = decode(data)
    except NotJson:
        body = None
    return Response(response.status, body if isinstance(body, dict) else {})


async def _read(response: aiohttp.ClientResponse) -> bytes:
    data = b""
    async for piece in response.content.iter_chunked(64 * 1024):
        data += piece
        if len(data) > MAX_BYTES:
            raise ValueError("its response is too large")
    return data


def _reason(error: Exception) -> str:
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    text = (inner.strerror if isinstance(inner, OSError) else None) or str(inner) or type(inner).__name__
    return "".join(one for one in text.splitlines()[0] if one.isprintable())[:200]
