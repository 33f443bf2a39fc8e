"""The registration on disk: two programs read it, this one and the homeserver, and it holds two secrets.

Whether the registration, the configuration and the homeserver say the same.
"""

import secrets
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from appservice.homeserver.accounts import ask
from appservice.people import double_puppets
from appservice.people.double_puppets import WantedPuppets
from appservice.registration.check import WHOAMI
from appservice.registration.namespaces import SENDER
from appservice.registration.registration import (
    Registration,
    Secrets,
    Wanted,
    differences,
    document,
    made_again,
    make,
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

MOST_BYTES = 100_000
_OWNER_AND_GROUP = 0o660
_OWNER = 0o600
DOUBLE_PUPPET = " --double-puppet"
"""What `palaver registration` writes the second one with."""

HEAD = """\
# By this file a homeserver knows a Palaver that is its guest. `palaver registration` writes it; name it under
# app_service_config_files in the configuration of Synapse, and start Synapse again.
"""
PUPPETS_HEAD = """\
# By this file a homeserver lets a Palaver that is its guest speak as the people on it: who has it can do all
# that they can. `palaver registration --double-puppet` writes it; name it under app_service_config_files in
# the configuration of Synapse beside the other one, and start Synapse again.
"""
EXAMPLE_HEAD = f"""\
{HEAD}#
# This one is an example: its tokens are refused.
"""


def new_secrets() -> Secrets:
    """Tokens that nobody guesses, and a sender whom nobody else is."""
    return Secrets(_token(), _token(), f"{SENDER}{secrets.token_hex(8)}")


def _token() -> str:
    """It begins with no sign: YAML would want quotes, and who edits it by hand would break them."""
    while not (token := secrets.token_urlsafe(32))[0].isalnum():
        pass
    return token


def text_of(registration: Registration, head: str = HEAD) -> str:
    return head + yaml_text(document(registration))


def load(path: Path, option: str = "") -> Registration:
    """LocalError says why there is none, and shows nothing of what is in the file. `option` is what
    `palaver registration` writes it with."""
    command = f"`palaver registration{option}`"
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise LocalError(
            f"There is no registration at {path}.",
            f"Write one with {command}, and tell the homeserver of it.",
        ) from None
    except OSError as error:
        raise LocalError(
            f"The registration {path} can't be read: {error.strerror}.",
            "Let the user that Palaver runs as read it.",
        ) from None
    found = _registration(data)
    if isinstance(found, Registration):
        return found
    raise LocalError(
        f"The registration {path} can't be used. {' '.join(found)}",
        f"Correct it in the copy that the homeserver reads too, or write it anew with {command}.",
    )


def _registration(data: bytes) -> Registration | tuple[str, ...]:
    if len(data) > MOST_BYTES:
        return ("It is far too large.",)
    try:
        value = read_yaml(data.decode())
    except UnicodeDecodeError:
        return ("It is not text.",)
    return (value.reason,) if isinstance(value, NotYaml) else read(value)


def write(path: Path, wanted: Wanted, *, new_tokens: bool = False) -> Registration:
    """As the configuration wants it. The tokens of a file that is there already are kept unless new ones are
    asked for: the homeserver has them from it. LocalError when what is there is no registration, or when it
    cannot be written."""
    before = load(path) if path.exists() and not new_tokens else None
    registration = make(wanted, new_secrets()) if before is None else made_again(wanted, before)
    _write(path, text_of(registration), "appservice.registration.registration")
    return registration


def write_double_puppet(path: Path, wanted: WantedPuppets, *, new_tokens: bool = False) -> Registration:
    """The second one, in the same way."""
    before = load(path, DOUBLE_PUPPET) if path.exists() and not new_tokens else None
    if before is not None and before.url is not None:
        # Its tokens are those of another registration, of which a homeserver knows each token once.
        raise LocalError(
            f"{path} is no registration for double puppets: it has a url.",
            "Name another file under double_puppet.registration.",
        )
    registration = double_puppets.make(wanted, new_secrets() if before is None else before.secrets)
    _write(path, text_of(registration, PUPPETS_HEAD), "double_puppet.registration")
    return registration


def _write(path: Path, text: str, setting: str) -> None:
    try:
        # A group that the homeserver is in may read it, if somebody said so.
        mode = path.stat().st_mode & _OWNER_AND_GROUP | _OWNER if path.exists() else _OWNER
        write_durably(path.resolve(), text.encode(), mode=mode)
    except OSError as error:
        raise LocalError(
            f"The registration {path} can't be written: {error.strerror}.",
            f"Name a file in a directory of yours under {setting}.",
        ) from None


async def check_registration(
    section: AppService, node_id: str, alias_kinds: Collection[str] = ()
) -> tuple[str, ...]:
    """All that is wrong: sentences with what to do about it. LocalError where the file itself cannot be used.

    The homeserver is asked to reach us, for which the port is opened while it is. Where it is taken, by this
    node most likely, whoever has it is reached, and has to accept the homeserver's token.
    """
    assert section.homeserver is not None, "the configuration was checked"
    registration = load(section.registration)
    said = wanted(section, node_id, alias_kinds)
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
    port = AppservicePort(section, registration, said, ListenerObserver(Metrics()))
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
