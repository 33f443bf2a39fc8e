"""The files of this server's signing keys, and the key document that it publishes."""

import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from federation.keys.server_keys import (
    BadKeyFile,
    LocalKey,
    LocalKeys,
    describe,
    format_local_key,
    format_old_keys,
    key_from_seed,
    make_key_document,
    parse_local_key,
    parse_old_keys,
    renewal_time,
    rotate,
)
from storage.durable_file import write_durably
from storage.errors import LocalError

T = TypeVar("T")


class LocalKeyFiles:
    """`signing.key` and `old_signing.keys` in the data directory."""

    def __init__(self, directory: Path) -> None:
        self.current = directory / "signing.key"
        self.old = directory / "old_signing.keys"

    def load(self) -> LocalKeys | None:
        """The keys, or None if the directory has none. Raises `LocalError` for unusable files."""
        if not self.current.exists():
            if self.old.exists():
                raise LocalError(
                    f"The signing key {self.current} is missing, but the list of old keys exists.",
                    "Restore the key file from a backup; without it, peers reject what this node signs.",
                )
            return None
        mode = stat.S_IMODE(self.current.stat().st_mode)
        if mode & 0o077:
            raise LocalError(
                f"The signing key {self.current} can be read by other users (mode {mode:04o}).",
                f"Run: chmod 600 {self.current}. If it may have been read, run `palaver keys rotate`.",
            )
        current = _read(self.current, parse_local_key)
        old = _read(self.old, parse_old_keys) if self.old.exists() else ()
        # A rotation interrupted between writing its two files has already listed the current key as old.
        return LocalKeys(current, tuple(key for key in old if key.version != current.version))

    def load_or_create(self) -> LocalKeys:
        keys = self.load()
        if keys is None:
            keys = LocalKeys(_new_key())
            write_durably(self.current, format_local_key(keys.current).encode())
        return keys

    def rotate(self, keys: LocalKeys, now_ms: int) -> LocalKeys:
        """Generate a new key. The list of old keys is written first, so that no key that was used is lost."""
        rotated = rotate(keys, _new_key(), now_ms)
        # The processes of a node may share the files by symbolic links, which are kept.
        write_durably(self.old.resolve(), format_old_keys(rotated.old).encode(), mode=0o644)
        write_durably(self.current.resolve(), format_local_key(rotated.current).encode())
        return rotated


class PublishedKeys:
    """The key document for `GET /_matrix/key/v2/server`, signed again when half of its validity has
    passed."""

    def __init__(self, server_name: str, files: LocalKeyFiles, keys: LocalKeys, now_ms: Callable[[], int]) -> None:
        self.keys = keys
        self._server_name = server_name
        self._files = files
        self._now_ms = now_ms
        self._document = make_key_document(server_name, keys, now_ms())

    def document(self) -> dict[str, Any]:
        now = self._now_ms()
        if now >= renewal_time(self._document):
            self._document = make_key_document(self._server_name, self.keys, now)
        return self._document

    def rotate(self) -> LocalKeys:
        self.reload()
        self._use(self._files.rotate(self.keys, self._now_ms()))
        return self.keys

    def reload(self) -> bool:
        """Load keys that another process of the node has rotated, and return whether they have changed.
        Raises LocalError if the files cannot be read; then the keys stay as they are."""
        keys = self._files.load()
        if keys is None or describe(keys) == describe(self.keys):
            return False
        self._use(keys)
        return True

    def _use(self, keys: LocalKeys) -> None:
        self.keys = keys
        self._document = make_key_document(self._server_name, keys, self._now_ms())


def _new_key() -> LocalKey:
    # A random version, as in Synapse, so that the keys of a node that was set up twice have different ids.
    return key_from_seed(f"a_{secrets.token_hex(3)}", secrets.token_bytes(32))


def _read(path: Path, parse: Callable[[str], T]) -> T:
    try:
        return parse(path.read_text("ascii"))
    except (BadKeyFile, UnicodeDecodeError) as error:
        reason = str(error) if isinstance(error, BadKeyFile) else "it is not text"
        raise LocalError(
            f"The key file {path} cannot be read: {reason}.",
            "Restore it from a backup. Only if there is none, move it away: a new key is then generated, and"
            " peers no longer trust what the old one signed.",
        ) from None
    except PermissionError:
        raise LocalError(
            f"The key file {path} belongs to another user.", "Start the node as the owner of its data directory."
        ) from None
