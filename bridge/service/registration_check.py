"""Whether the registration, the configuration and the homeserver say the same."""

import aiohttp

from appservice.registration import differences
from appservice.service.homeserver_check import check_homeserver
from bridge.config_appservice import AppService, wanted
from bridge.service.registration_file import load


async def check_registration(section: AppService, node_id: str) -> tuple[str, ...]:
    """All that is wrong: sentences with what to do about it. LocalError where the file itself cannot be used.

    Whether the homeserver reaches this node only a node that runs can tell: nothing listens here.
    """
    assert section.homeserver is not None, "the configuration was checked"
    registration, said = load(section.registration), wanted(section, node_id)
    async with aiohttp.ClientSession() as session:
        wrong = await check_homeserver(session, section.homeserver, registration, said, None)
    return (*differences(registration, said), *([wrong] if wrong is not None else []))
