"""Checks with requests to the homeserver whether it knows this node, lets it register users, and reaches
it."""

import secrets
from collections.abc import Callable

import aiohttp

from appservice.homeserver.accounts import ask
from appservice.registration.check import (
    NO_PINGS,
    REGISTER,
    VERSIONS,
    WHOAMI,
    NoResponse,
    Problem,
    RequestResult,
    alias_path,
    lacks_pings,
    offices_problem,
    ping_path,
    ping_problem,
    problem,
    register_body,
    register_problem,
    unused_office,
    versions_problem,
    whoami_problem,
)
from appservice.registration.registration import Registration, RegistrationSettings, reserves_offices


async def check_homeserver(
    session: aiohttp.ClientSession,
    url: str,
    registration: Registration,
    wanted: RegistrationSettings,
    was_received: Callable[[str], bool] | None,
) -> str | None:
    """Return the sentence of the problem that `find_homeserver_problem` finds."""
    found = await find_homeserver_problem(session, url, registration, wanted, was_received)
    return None if found is None else found.sentence


async def find_homeserver_problem(
    session: aiohttp.ClientSession,
    url: str,
    registration: Registration,
    wanted: RegistrationSettings,
    was_received: Callable[[str], bool] | None,
) -> Problem | None:
    """Return the first problem, with advice. If there is none, the node's own user is registered.
    `was_received` tells whether a ping with this transaction id, or a query for the office with this name,
    has arrived; it is called after the homeserver has responded. Pass None if this process does not listen:
    then no ping is requested."""
    result = await ask(session, "GET", url + VERSIONS)
    found = problem(versions_problem(result, url), result)
    if found is not None:
        return found
    token = registration.secrets.as_token
    result = await ask(session, "GET", url + WHOAMI, token)
    found = problem(whoami_problem(result, registration, wanted), result)
    if found is not None:
        return found
    node = wanted.namespaces.node_user
    result = await ask(session, "POST", url + REGISTER, token, register_body(node))
    found = problem(register_problem(result, node, wanted.namespaces), result)
    if found is not None or was_received is None:
        return found
    transaction_id = secrets.token_hex(8)
    result = await request_ping(session, url, registration, transaction_id)
    warning = NO_PINGS if lacks_pings(result) else None
    found = problem(ping_problem(result, registration, was_received=was_received(transaction_id)), result)
    if found is not None or not wanted.has_offices or not reserves_offices(registration, wanted):
        return found or warning
    office = unused_office(transaction_id)
    result = await ask(session, "GET", url + alias_path(office, wanted.namespaces), token)
    return (
        problem(offices_problem(result, registration, was_received=was_received(office.namespace)), result) or warning
    )


async def request_ping(
    session: aiohttp.ClientSession, url: str, registration: Registration, transaction_id: str
) -> RequestResult:
    """Let the homeserver ping this node; return its response."""
    token, body = registration.secrets.as_token, {"transaction_id": transaction_id}
    result = await ask(session, "POST", url + ping_path(registration), token, body)
    if isinstance(result, NoResponse) or result.errcode != "M_CONNECTION_FAILED":
        return result
    # A homeserver reuses connections. One to the process that had the port before fails when it is used; the
    # next one is new.
    return await ask(session, "POST", url + ping_path(registration), token, body)
