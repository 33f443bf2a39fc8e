"""Reads and writes the registration file, which this node and the homeserver share and which contains two
secrets.

Also checks whether registration, configuration and homeserver agree.
"""

import secrets
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from appservice.homeserver.accounts import ask
from appservice.registration import double_puppets
from appservice.registration.check import WHOAMI
from appservice.registration.double_puppets import PuppetRegistrationSettings
from appservice.registration.namespaces import SENDER
from appservice.registration.registration import (
    Registration,
    RegistrationSettings,
    Secrets,
    differences,
    document,
    make,
    make_with_existing_tokens,
    read,
)
from appservice.registration.run_check import check_homeserver
from bridge.config.appservice import AppService, wanted
from bridge.config.people import DoublePuppet, wanted_puppets
from bridge.node.appservice_port import AppservicePort
from bridge.observability.metrics import Metrics
from bridge.observability.observer import ListenerObserver
from bridge.text.yaml_text import NotYaml, read_yaml, yaml_text
from storage.durable_file import write_durably
from storage.errors import LocalError

MAX_BYTES = 100_000
_OWNER_AND_GROUP = 0o660
_OWNER = 0o600
DOUBLE_PUPPET = " --double-puppet"
"""The option with which `palaver registration` writes the second registration."""

HEAD = """\
# This file introduces Palaver to a homeserver as an application service. `palaver registration` writes it;
# add it to app_service_config_files in the configuration of Synapse, and restart Synapse.
"""
PUPPETS_HEAD = """\
# This file lets Palaver act as any user of the homeserver, so keep it secret.
# `palaver registration --double-puppet` writes it; add it to app_service_config_files in the configuration of
# Synapse, beside the other registration, and restart Synapse.
"""
EXAMPLE_HEAD = f"""\
{HEAD}#
# This is an example: its tokens are refused.
"""


def new_secrets() -> Secrets:
    """Unguessable tokens and a unique sender."""
    return Secrets(_token(), _token(), f"{SENDER}{secrets.token_hex(8)}")


def _token() -> str:
    """It starts with a letter or digit: otherwise YAML needs quotes, which manual edits break."""
    while not (token := secrets.token_urlsafe(32))[0].isalnum():
        pass
    return token


def text_of(registration: Registration, head: str = HEAD) -> str:
    return head + yaml_text(document(registration))


def load(path: Path, option: str = "") -> Registration:
    """LocalError says why the file cannot be used, without revealing its contents. `option` is the option
    with which `palaver registration` writes it."""
    command = f"`palaver registration{option}`"
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise LocalError(
            f"There is no registration at {path}.",
            f"Write one with {command}, and add it to the homeserver's configuration.",
        ) from None
    except OSError as error:
        raise LocalError(
            f"The registration {path} can't be read: {error.strerror}.",
            "Make it readable for the user that Palaver runs as.",
        ) from None
    found = _registration(data)
    if isinstance(found, Registration):
        return found
    raise LocalError(
        f"The registration {path} can't be used. {' '.join(found)}",
        f"Correct it, also in the homeserver's copy, or write it again with {command}.",
    )


def _registration(data: bytes) -> Registration | tuple[str, ...]:
    if len(data) > MAX_BYTES:
        return ("It is far too large.",)
    try:
        value = read_yaml(data.decode())
    except UnicodeDecodeError:
        return ("It is not text.",)
    return (value.reason,) if isinstance(value, NotYaml) else read(value)


def write(path: Path, wanted: RegistrationSettings, *, new_tokens: bool = False) -> Registration:
    """Write the configured registration. The tokens of an existing file are kept unless `new_tokens` is
    set, because the homeserver knows them. LocalError if the existing file is invalid, or if it cannot be
    written."""
    before = load(path) if path.exists() and not new_tokens else None
    registration = make(wanted, new_secrets()) if before is None else make_with_existing_tokens(wanted, before)
    _write(path, text_of(registration), "appservice.registration.registration")
    return registration


def write_double_puppet(path: Path, wanted: PuppetRegistrationSettings, *, new_tokens: bool = False) -> Registration:
    """The same for the second registration."""
    before = load(path, DOUBLE_PUPPET) if path.exists() and not new_tokens else None
    if before is not None and before.url is not None:
        # Its tokens belong to another registration, and a homeserver requires tokens to be unique.
        raise LocalError(
            f"{path} is not a registration for double puppets: it has a url.",
            "Set double_puppet.registration to another file.",
        )
    registration = double_puppets.make(wanted, new_secrets() if before is None else before.secrets)
    _write(path, text_of(registration, PUPPETS_HEAD), "double_puppet.registration")
    return registration


def _write(path: Path, text: str, setting: str) -> None:
    try:
        # An operator may have made the file readable for the homeserver's group.
        mode = path.stat().st_mode & _OWNER_AND_GROUP | _OWNER if path.exists() else _OWNER
        write_durably(path.resolve(), text.encode(), mode=mode)
    except OSError as error:
        raise LocalError(
            f"The registration {path} can't be written: {error.strerror}.",
            f"Set {setting} to a file in a writable directory.",
        ) from None


async def check_registration(section: AppService, node_id: str, alias_kinds: Collection[str] = ()) -> tuple[str, ...]:
    """Return sentences on all problems, with advice. LocalError if the file itself cannot be used.

    The homeserver is asked to ping this node, so the port is opened during the check. If the port is taken,
    most likely by the running node, that process receives the ping and has to accept the homeserver's token.
    """
    assert section.homeserver is not None, "checked by the configuration"
    registration = load(section.registration)
    settings = wanted(section, node_id, alias_kinds)
    async with aiohttp.ClientSession() as session, _reachable(section, registration, settings) as was_received:
        problem = await check_homeserver(session, section.homeserver, registration, settings, was_received)
    return (*differences(registration, settings), *([problem] if problem is not None else []))


async def check_double_puppet(section: DoublePuppet, appservice: AppService) -> tuple[str, ...]:
    """The same for the second registration, if it is enabled."""
    if not section.enabled:
        return ()
    assert appservice.homeserver is not None, "checked by the configuration"
    registration, settings = load(section.registration, DOUBLE_PUPPET), wanted_puppets(section, appservice)
    async with aiohttp.ClientSession() as session:
        result = await ask(session, "GET", appservice.homeserver + WHOAMI, registration.secrets.as_token)
    problem = double_puppets.whoami_problem(result, registration, str(section.registration), settings.domain)
    return (*double_puppets.differences(registration, settings), *([problem] if problem is not None else []))


@asynccontextmanager
async def _reachable(
    section: AppService, registration: Registration, settings: RegistrationSettings
) -> AsyncIterator[Callable[[str], bool]]:
    """Yield a function that tells which pings have arrived. Other requests of the homeserver get a 503
    meanwhile."""
    port = AppservicePort(section, registration, settings, ListenerObserver(Metrics()))
    try:
        try:
            port.bind()
        except LocalError:
            yield lambda transaction_id: True
            return
        await port.start()
        yield port.has_received
    finally:
        await port.close()
