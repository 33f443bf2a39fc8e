"""Two secrets in files: what programs show to ask as anybody, and what people's tokens are sealed with."""

import secrets
from pathlib import Path
from typing import Final

from appservice.sealing import KEY_BYTES
from bridge.provisioning.authorization import wrong_secret
from storage.durable_file import write_durably
from storage.errors import LocalError

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
