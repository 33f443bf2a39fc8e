"""Whether the registration, the configuration and the homeserver say the same."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NoReturn

import aiohttp

from appservice import double_puppets
from appservice.homeserver_check import WHOAMI
from appservice.namespaces import AgentRoom
from appservice.registration import Registration, Wanted, differences
from appservice.service.asking import ask
from appservice.service.homeserver_check import check_homeserver
from appservice.transaction import Transaction
from appservice.wire.app import make_listener
from appservice.wire.services import AppServices
from bridge.config_appservice import AppService, wanted
from bridge.config_provisioning import DoublePuppet, wanted_puppets
from bridge.metrics import Metrics
from bridge.service.observer import ListenerObserver
from bridge.service.registration_file import DOUBLE_PUPPET, load
from federation.errors import MatrixError
from federation.wire.bind import Bind
from storage.errors import LocalError

_PATIENCE = 1.0
"""Seconds for what is under way when the check ends."""


async def check_registration(section: AppService, node_id: str) -> tuple[str, ...]:
    """All that is wrong: sentences with what to do about it. LocalError where the file itself cannot be used.

    The homeserver is asked to reach us, for which the port is opened while it is. Where it is taken, by this
    node most likely, whoever has it is reached, and has to accept the homeserver's token.
    """
    assert section.homeserver is not None, "the configuration was checked"
    registration, said = load(section.registration), wanted(section, node_id)
    async with (
        aiohttp.ClientSession() as session,
        _reachable(section, registration, said) as came,
    ):
        wrong = await check_homeserver(session, section.homeserver, registration, said, came)
    return (*differences(registration, said), *([wrong] if wrong is not None else []))


async def check_double_puppet(section: DoublePuppet, appservice: AppService) -> tuple[str, ...]:
    """The same of the second registration, where there is to be one."""
    if not section.enabled:
        return ()
    assert appservice.homeserver is not None, "the configuration was checked"
    registration, said = load(section.registration, DOUBLE_PUPPET), wanted_puppets(section, appservice)
    async with aiohttp.ClientSession() as session:
        heard = await ask(session, "GET", appservice.homeserver + WHOAMI, registration.secrets.as_token)
    wrong = double_puppets.wrong_whoami(heard, registration, str(section.registration), said.domain)
    return (*double_puppets.differences(registration, said), *([wrong] if wrong is not None else []))


@asynccontextmanager
async def _reachable(
    section: AppService, registration: Registration, said: Wanted
) -> AsyncIterator[Callable[[str], bool]]:
    """Says which pings have come."""
    pinged: set[str | None] = set()
    closed = _Closed()
    services = AppServices(registration.secrets.hs_token, said.namespaces, closed, closed, pinged.add)
    listener = make_listener(services, [Bind(section.host)], section.port, ListenerObserver(Metrics()))
    try:
        await listener.start()
    except LocalError:
        yield lambda transaction_id: True
        return
    try:
        yield pinged.__contains__
    finally:
        await listener.close(_PATIENCE)


class _Closed:
    """A node that only looks whether it would be reached. What is sent to it will be sent again."""

    async def take_in(self, transaction_id: str, transaction: Transaction) -> bool:
        _refuse()

    async def provide_agent(self, agent_id: str, node_id: str) -> bool:
        _refuse()

    async def provide_room(self, room: AgentRoom) -> bool:
        _refuse()

    async def knows_agent(self, agent_id: str, node_id: str) -> bool:
        _refuse()

    async def knows_room(self, room: AgentRoom) -> bool:
        _refuse()


def _refuse() -> NoReturn:
    raise MatrixError("M_UNKNOWN", "This node does not run: only its registration is checked.", 503)
