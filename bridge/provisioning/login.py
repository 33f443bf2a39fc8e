"""Who is logged in, and how one is: `whoami`, `login/…`, `logins`, `logout/…`.

Two secrets in files: what programs show to ask as anybody, and what people's tokens are sealed with.
"""

import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from appservice.registration.tokens import KEY_BYTES
from bridge.people.permissions import Level
from bridge.provisioning import about, login_steps
from bridge.provisioning.authorization import wrong_secret
from bridge.provisioning.services import ProvisioningServices, read_object
from federation.matrix.errors import MatrixError
from storage.durable_file import write_durably
from storage.errors import LocalError

ALL: Final = "all"
_LOGIN: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


async def whoami(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    person = await services.person(request)
    names = services.names
    profile = await services.side.profile(names.node_user)
    avatar = None if profile is None else profile.get("avatar_url")
    bridge = about.Bridge(
        homeserver=names.domain,
        node_user=names.node_user,
        prefix=services.prefix,
        avatar=avatar if isinstance(avatar, str) else None,
        takes_tokens=services.puppets.takes_tokens,
    )
    return about.whoami(bridge, await services.puppets.login(person))


async def capabilities(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    await services.person(request)
    return about.CAPABILITIES


async def flows(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    await services.person(request)
    return {"flows": login_steps.flows(takes_tokens=services.puppets.takes_tokens)}


async def logins(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    login = await services.puppets.login(await services.person(request))
    return {"login_ids": [] if login is None else [login.login_id]}


async def start(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    # Whose token is here, for him others can ask agents for work.
    person = await services.person(request, Level.WORK)
    await check_login(request, services, person)
    process_id = secrets.token_hex(16)
    flow = request.match_info["flow"]
    services.begun.begin(
        process_id, person, flow, services.monotonic(), takes_tokens=services.puppets.takes_tokens
    )
    return login_steps.first_step(process_id)


async def step(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    person = await services.person(request, Level.WORK)
    process_id, named = request.match_info["process"], request.match_info
    services.begun.check(process_id, person, named["step"], named["type"], services.monotonic())
    token = login_steps.token_in(await read_object(request))
    login_id = await services.puppets.give(person, token)
    services.begun.end(process_id)
    return login_steps.complete(process_id, login_id)


async def cancel(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    person = await services.person(request)
    process_id = request.match_info["process"]
    services.begun.check(process_id, person, login_steps.STEP, login_steps.STEP_TYPE, services.monotonic())
    services.begun.end(process_id)
    return {}


async def logout(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    person = await services.person(request)
    login_id = request.match_info["login"]
    if login_id == ALL:
        login = await services.puppets.login(person)
        if login is not None:
            await services.puppets.take_back(person, login.login_id)
        return {}
    # No other id was ever given out, and some could not even be looked for.
    if _LOGIN.fullmatch(login_id) is None or not await services.puppets.take_back(person, login_id):
        raise _no_login()
    return {}


async def check_login(request: web.Request, services: ProvisioningServices, person: str) -> None:
    """ "An optional explicit login ID to do the action through": agents need none, but one that is named has
    to be there. Raises `MatrixError`."""
    login_id = request.query.get("login_id")
    if login_id:
        login = await services.puppets.login(person)
        if login is None or login.login_id != login_id:
            raise _no_login()


def _no_login() -> MatrixError:
    return MatrixError("M_NOT_FOUND", "You have no such login.", 404)


KEY_FILE: Final = "double-puppets.key"
"""In the data directory. Without it, people whose tokens are in the database have to log in again."""
_MOST_BYTES: Final = 10_000


def load_shared_secret(path: Path) -> str:
    """LocalError says why there is none, and shows nothing of what is in the file."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES).decode("ascii").strip()
    except OSError as error:
        raise LocalError(
            f"The shared secret {path} can't be read: {error.strerror}.",
            "Correct provisioning.shared_secret, or let the user that Palaver runs as read the file.",
        ) from None
    except UnicodeDecodeError:
        # Neither is this.
        text = ""
    wrong = wrong_secret(text)
    if wrong is not None:
        raise LocalError(
            f"The shared secret {path} can't be used. {wrong}",
            "Write another one, with `openssl rand -hex 32` for instance.",
        )
    return text


def load_or_make_key(data_dir: Path) -> bytes:
    """Whoever holds the data directory calls it."""
    path = data_dir / KEY_FILE
    try:
        if not path.exists():
            write_durably(path, secrets.token_hex(KEY_BYTES).encode() + b"\n")
        text = path.read_text("ascii").strip()
        key = bytes.fromhex(text)
    except OSError as error:
        raise LocalError(
            f"The key {path} can't be used: {error.strerror}.",
            "Let the user that Palaver runs as read and write it.",
        ) from None
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise LocalError(
            f"{path} is no key: that is {2 * KEY_BYTES} hexadecimal digits.",
            "Restore it from a backup; or delete it, and people log in again.",
        )
    return key
