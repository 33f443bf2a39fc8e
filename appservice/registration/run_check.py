"""Asks the homeserver whether it knows us, gives us our names and reaches us."""

import secrets
from collections.abc import Callable

import aiohttp

from appservice.homeserver.accounts import ask
from appservice.registration.check import (
    REGISTER,
    VERSIONS,
    WHOAMI,
    Heard,
    NoAnswer,
    Wrong,
    alias_path,
    office_nobody_has,
    ping_path,
    register_body,
    wrong,
    wrong_offices,
    wrong_ping,
    wrong_register,
    wrong_versions,
    wrong_whoami,
)
from appservice.registration.registration import Registration, Wanted, reserves_offices


async def check_homeserver(
    session: aiohttp.ClientSession,
    url: str,
    registration: Registration,
    wanted: Wanted,
    came: Callable[[str], bool] | None,
) -> str | None:
    """The sentence of what `look_at_homeserver` finds wrong."""
    found = await look_at_homeserver(session, url, registration, wanted, came)
    return None if found is None else found.sentence


async def look_at_homeserver(
    session: aiohttp.ClientSession,
    url: str,
    registration: Registration,
    wanted: Wanted,
    came: Callable[[str], bool] | None,
) -> Wrong | None:
    """The first thing that is wrong, in a sentence with what to do about it. If nothing is, there is the user
    as whom the node speaks. `came` says whether a ping with this transaction id, or a question for the office
    of this name, has been heard, which is asked after the homeserver says that it brought it; None where this
    process does not listen, and neither is asked for."""
    heard = await ask(session, "GET", url + VERSIONS)
    found = wrong(wrong_versions(heard, url), heard)
    if found is not None:
        return found
    token = registration.secrets.as_token
    heard = await ask(session, "GET", url + WHOAMI, token)
    found = wrong(wrong_whoami(heard, registration, wanted), heard)
    if found is not None:
        return found
    node = wanted.namespaces.node_user
    heard = await ask(session, "POST", url + REGISTER, token, register_body(node))
    found = wrong(wrong_register(heard, node, wanted.namespaces), heard)
    if found is not None or came is None:
        return found
    transaction_id = secrets.token_hex(8)
    heard = await ask_for_ping(session, url, registration, transaction_id)
    found = wrong(wrong_ping(heard, registration, came=came(transaction_id)), heard)
    if found is not None or not wanted.has_offices or not reserves_offices(registration, wanted):
        return found
    office = office_nobody_has(transaction_id)
    heard = await ask(session, "GET", url + alias_path(office, wanted.namespaces), token)
    return wrong(wrong_offices(heard, registration, came=came(office.namespace)), heard)


async def ask_for_ping(
    session: aiohttp.ClientSession, url: str, registration: Registration, transaction_id: str
) -> Heard:
    """Have the homeserver reach us; what it says of it."""
    token, body = registration.secrets.as_token, {"transaction_id": transaction_id}
    heard = await ask(session, "POST", url + ping_path(registration), token, body)
    if isinstance(heard, NoAnswer) or heard.errcode != "M_CONNECTION_FAILED":
        return heard
    # A homeserver keeps connections. One to the process that had the port before fails when it is used; the
    # next one is new.
    return await ask(session, "POST", url + ping_path(registration), token, body)
