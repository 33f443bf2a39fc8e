"""Asks the homeserver whether it knows us, gives us our names and reaches us."""

import secrets
from collections.abc import Callable
from typing import Any, Final

import aiohttp
from aiohttp import hdrs

from appservice.homeserver_check import (
    REGISTER,
    VERSIONS,
    WHOAMI,
    Answer,
    Heard,
    NoAnswer,
    ping_path,
    register_body,
    wrong_ping,
    wrong_register,
    wrong_versions,
    wrong_whoami,
)
from appservice.registration import Registration, Wanted
from federation.canonical_json import NotJson, decode

# The homeserver gives its own request for the ping some time, and then answers.
_TIMEOUT: Final = aiohttp.ClientTimeout(total=45, sock_connect=10)
MOST_BYTES: Final = 1024 * 1024


async def check_homeserver(
    session: aiohttp.ClientSession,
    url: str,
    registration: Registration,
    wanted: Wanted,
    came: Callable[[str], bool] | None,
) -> str | None:
    """The first thing that is wrong, in a sentence with what to do about it. If nothing is, there is the user
    as whom the node speaks. `came` says whether a ping with
    this transaction id has been heard, which is asked after the homeserver says that it brought it; None
    where this process does not listen, and no ping is asked for."""
    wrong = wrong_versions(await _ask(session, "GET", url + VERSIONS), url)
    if wrong is not None:
        return wrong
    token = registration.secrets.as_token
    wrong = wrong_whoami(await _ask(session, "GET", url + WHOAMI, token), registration, wanted)
    if wrong is not None:
        return wrong
    registered = await _ask(session, "POST", url + REGISTER, token, register_body(wanted))
    wrong = wrong_register(registered, wanted)
    if wrong is not None or came is None:
        return wrong
    transaction_id = secrets.token_hex(8)
    heard = await _ask(
        session, "POST", url + ping_path(registration), token, {"transaction_id": transaction_id}
    )
    return wrong_ping(heard, registration, came=came(transaction_id))


async def _ask(
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
