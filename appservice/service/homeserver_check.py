"""Asks the homeserver whether it knows us, gives us our names and reaches us."""

import secrets
from collections.abc import Callable

import aiohttp

from appservice.homeserver_check import (
    REGISTER,
    VERSIONS,
    WHOAMI,
    NoAnswer,
    ping_path,
    register_body,
    wrong_ping,
    wrong_register,
    wrong_versions,
    wrong_whoami,
)
from appservice.registration import Registration, Wanted
from appservice.service.asking import ask


async def check_homeserver(
    session: aiohttp.ClientSession,
    url: str,
    registration: Registration,
    wanted: Wanted,
    came: Callable[[str], bool] | None,
) -> str | None:
    """The first thing that is wrong, in a sentence with what to do about it. If nothing is, there is the user
    as whom the node speaks. `came` says whether a ping with this transaction id has been heard, which is
    asked after the homeserver says that it brought it; None where this process does not listen, and no ping
    is asked for."""
    wrong = wrong_versions(await ask(session, "GET", url + VERSIONS), url)
    if wrong is not None:
        return wrong
    token = registration.secrets.as_token
    wrong = wrong_whoami(await ask(session, "GET", url + WHOAMI, token), registration, wanted)
    if wrong is not None:
        return wrong
    node = wanted.namespaces.node_user
    registered = await ask(session, "POST", url + REGISTER, token, register_body(node))
    wrong = wrong_register(registered, node, wanted.namespaces)
    if wrong is not None or came is None:
        return wrong
    transaction_id = secrets.token_hex(8)
    for _ in range(2):
        heard = await ask(
            session, "POST", url + ping_path(registration), token, {"transaction_id": transaction_id}
        )
        wrong = wrong_ping(heard, registration, came=came(transaction_id))
        # A homeserver keeps connections. One to whoever had the port a moment ago breaks when it is used,
        # and the next one is new.
        if isinstance(heard, NoAnswer) or heard.errcode != "M_CONNECTION_FAILED":
            break
    return wrong
