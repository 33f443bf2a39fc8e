"""Finds and reads the configuration file, and reads and writes files that contain a secret."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bridge.config.config import Config
from bridge.config.errors import Mistake, read_config
from storage.errors import LocalError

FILE_NAME = "palaver.toml"
WITHOUT_FILE = """\
[[agents]]
id = "echo"
command = ["cat"]
"""
"""The configuration of a node without a file: the defaults, and an agent to try."""


class BadConfig(LocalError):
    """The configuration is invalid. `mistakes` has all errors in it."""

    def __init__(self, where: str, mistakes: list[Mistake]) -> None:
        count = "one mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        lines = "".join(f"\n  - {mistake}" for mistake in mistakes)
        super().__init__(f"{where} has {count}:{lines}\n", "`palaver config example` prints every setting.")
        self.mistakes = mistakes


@dataclass(frozen=True)
class LoadedConfig:
    """A configuration, and the path of its file, or None if it was read without a file."""

    config: Config
    path: Path | None


def load_config(path: Path | None, environ: Mapping[str, str], directory: Path) -> LoadedConfig:
    """Read `path`, or `palaver.toml` in `directory` if it exists. Without a file the defaults apply, which
    are a working node, with the agent `echo`. Relative paths in it are resolved against the file's
    directory."""
    given = path is not None
    path = path if path is not None else directory / FILE_NAME
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        if given:
            raise LocalError(
                f"The file {path} does not exist.", f"Create it with `palaver init --config {path}`."
            ) from None
        text, path = WITHOUT_FILE, None
    except (PermissionError, IsADirectoryError, UnicodeDecodeError) as error:
        raise LocalError(
            f"The configuration {path} can't be read: {_why(error)}.", "Name another file with --config."
        ) from None
    outcome = read_config(text, environ)
    if isinstance(outcome, list):
        raise BadConfig(str(path) if path is not None else "The environment", outcome)
    base = path.resolve().parent if path is not None else directory.resolve()
    return LoadedConfig(outcome.relative_to(base), path)


def _why(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or "no reason given").lower() if isinstance(error, OSError) else "it is not UTF-8 text"


def read_secret(path: Path, what: str) -> str:
    """Return the secret in the file `path`, without the trailing newline that editors add. `what` names the
    secret in error messages."""
    try:
        secret = path.read_text("utf-8").strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise LocalError(
            f"The {what} in {path} can't be read: {_why(error)}.", "Check the path and the file's permissions."
        ) from None
    if not secret:
        raise LocalError(f"The file {path} for the {what} is empty.", "Write the secret on its only line.")
    return secret


@contextlib.contextmanager
def new_secret_file(path: Path) -> Iterator[Callable[[str], None]]:
    """Create a file that only its owner can read, and yield a function that writes the secret to it.

    The file is created before the secret, so a secret that can't be stored is never generated. Raises
    `LocalError` if the file can't be created or exists already. If the block fails, the file is removed.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise LocalError(f"{path} already exists.", "Name a file that does not exist yet.") from None
    except OSError as error:
        raise LocalError(
            f"The file {path} can't be written: {error.strerror}.", "Name a file in a writable directory."
        ) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        try:
            yield lambda secret: file.writelines((secret, "\n"))
            file.flush()
        except BaseException:
            path.unlink(missing_ok=True)
            raise
