"""The registration on disk: two programs read it, this one and the homeserver, and it holds two secrets."""

import secrets
from pathlib import Path

from appservice.namespaces import SENDER
from appservice.registration import Registration, Secrets, Wanted, document, made_again, make, read
from bridge.yaml_reading import NotYaml, read_yaml
from bridge.yaml_text import yaml_text
from storage.durable_file import write_durably
from storage.errors import LocalError

MOST_BYTES = 1_000_000
_OWNER_AND_GROUP = 0o660
_OWNER = 0o600

HEAD = """\
# By this file a homeserver knows a Palaver that is its guest. `palaver registration` writes it; name it under
# app_service_config_files in the configuration of Synapse, and start Synapse again.
"""
EXAMPLE_HEAD = f"""\
{HEAD}#
# This one is an example: its tokens are refused.
"""


def new_secrets() -> Secrets:
    """Tokens that nobody guesses, and a sender whom nobody else is."""
    return Secrets(secrets.token_urlsafe(32), secrets.token_urlsafe(32), f"{SENDER}{secrets.token_hex(8)}")


def text_of(registration: Registration, head: str = HEAD) -> str:
    return head + yaml_text(document(registration))


def load(path: Path) -> Registration:
    """LocalError says why there is none, and shows nothing of what is in the file."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise LocalError(
            f"There is no registration at {path}.",
            "Write one with `palaver registration`, and tell the homeserver of it.",
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
        "Correct it in the copy that the homeserver reads too, or write it anew with `palaver registration`.",
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
    try:
        # A group that the homeserver is in may read it, if somebody said so.
        mode = path.stat().st_mode & _OWNER_AND_GROUP | _OWNER if path.exists() else _OWNER
        write_durably(path.resolve(), text_of(registration).encode(), mode=mode)
    except OSError as error:
        raise LocalError(
            f"The registration {path} can't be written: {error.strerror}.",
            "Name a file in a directory of yours under appservice.registration.",
        ) from None
    return registration
