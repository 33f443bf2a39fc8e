"""Logins: `whoami`, `login/…`, `logins`, `logout/…`.

Also loads the two secrets from files: the shared secret of the operator's programs, and the key that encrypts
people's tokens.
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
from bridge.provisioning.authorization import secret_problem
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
        accepts_tokens=services.puppets.accepts_tokens,
    )
    return about.whoami(bridge, await services.puppets.login(person))


async def capabilities(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    await services.person(request)
    return about.CAPABILITIES


async def flows(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    await services.person(request)
    return {"flows": login_steps.flows(accepts_tokens=services.puppets.accepts_tokens)}


async def logins(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    login = await services.puppets.login(await services.person(request))
    return {"login_ids": [] if login is None else [login.login_id]}


async def start(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    # Requires the permission to assign work, because others can then assign work to agents in this person's
    # name.
    person = await services.person(request, Level.WORK)
    await check_login(request, services, person)
    process_id = secrets.token_hex(16)
    flow = request.match_info["flow"]
    services.login_processes.begin(
        process_id, person, flow, services.monotonic(), accepts_tokens=services.puppets.accepts_tokens
    )
    return login_steps.first_step(process_id)


async def step(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    person = await services.person(request, Level.WORK)
    process_id, match = request.match_info["process"], request.match_info
    services.login_processes.check(process_id, person, match["step"], match["type"], services.monotonic())
    token = login_steps.token_in(await read_object(request))
    login_id = await services.puppets.log_in(person, token)
    services.login_processes.end(process_id)
    return login_steps.complete(process_id, login_id)


async def cancel(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    person = await services.person(request)
    process_id = request.match_info["process"]
    services.login_processes.check(process_id, person, login_steps.STEP, login_steps.STEP_TYPE, services.monotonic())
    services.login_processes.end(process_id)
    return {}


async def logout(request: web.Request, services: ProvisioningServices) -> Mapping[str, Any]:
    person = await services.person(request)
    login_id = request.match_info["login"]
    if login_id == ALL:
        login = await services.puppets.login(person)
        if login is not None:
            await services.puppets.log_out(person, login.login_id)
        return {}
    # Other ids were never issued, and some are invalid in a query.
    if _LOGIN.fullmatch(login_id) is None or not await services.puppets.log_out(person, login_id):
        raise _no_login()
    return {}


async def check_login(request: web.Request, services: ProvisioningServices, person: str) -> None:
    """ "An optional explicit login ID to do the action through": agents need none, but a given one has to
    exist. Raises `MatrixError`."""
    login_id = request.query.get("login_id")
    if login_id:
        login = await services.puppets.login(person)
        if login is None or login.login_id != login_id:
            raise _no_login()


def _no_login() -> MatrixError:
    return MatrixError("M_NOT_FOUND", "You have no such login.", 404)


KEY_FILE: Final = "double-puppets.key"
"""In the data directory. If it is lost, people whose tokens are in the database have to log in again."""
_MAX_BYTES: Final = 10_000


def load_shared_secret(path: Path) -> str:
    """LocalError says why there is none, without revealing the file's contents."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES).decode("ascii").strip()
    except OSError as error:
        raise LocalError(
            f"The shared secret {path} can't be read: {error.strerror}.",
            "Correct provisioning.shared_secret, or make the file readable for Palaver's user.",
        ) from None
    except UnicodeDecodeError:
        # Non-ASCII text is not a valid secret.
        text = ""
    wrong = secret_problem(text)
    if wrong is not None:
        raise LocalError(
            f"The shared secret {path} can't be used. {wrong}",
            "Create another one, for example with `openssl rand -hex 32`.",
        )
    return text


def load_or_create_key(data_dir: Path) -> bytes:
    """The caller holds the lock on the data directory."""
    path = data_dir / KEY_FILE
    try:
        if not path.exists():
            write_durably(path, secrets.token_hex(KEY_BYTES).encode() + b"\n")
        text = path.read_text("ascii").strip()
        key = bytes.fromhex(text)
    except OSError as error:
        raise LocalError(
            f"The key {path} can't be used: {error.strerror}.",
            "Make it readable and writable for the user that Palaver runs as.",
        ) from None
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise LocalError(
            f"{path} is not a key: a key consists of {2 * KEY_BYTES} hexadecimal digits.",
            "Restore it from a backup; or delete it, and people have to log in again.",
        )
    return key
