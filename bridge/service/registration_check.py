"""Whether the registration, the configuration and the homeserver say the same."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp

from appservice import double_puppets
from appservice.homeserver_check import WHOAMI
from appservice.registration import Registration, Wanted, differences
from appservice.service.asking import ask
from appservice.service.homeserver_check import check_homeserver
from bridge.config_appservice import AppService, wanted
from bridge.config_provisioning import DoublePuppet, wanted_puppets
from bridge.metrics import Metrics
from bridge.service.guest_port import GuestPort
from bridge.service.observer import ListenerObserver
from bridge.service.registration_file import DOUBLE_PUPPET, load
from storage.errors import LocalError


async def check_registration(
    section: AppService, node_id: str, *, has_offices: bool = False
) -> tuple[str, ...]:
    """All that is wrong: sentences with what to do about it. LocalError where the file itself cannot be used.

    The homeserver is asked to reach us, for which the port is opened while it is. Where it is taken, by this
    node most likely, whoever has it is reached, and has to accept the homeserver's token.
    """
    assert section.homeserver is not None, "the configuration was checked"
    registration = load(section.registration)
    said = wanted(section, node_id, has_offices=has_offices)
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
    """Says which pings have come. What the homeserver sends meanwhile it is told to send again."""
    port = GuestPort(section, registration, said, ListenerObserver(Metrics()))
    try:
        try:
            port.bind()
        except LocalError:
            yield lambda transaction_id: True
            return
        await port.start()
        yield port.has_brought
    finally:
        await port.close()
