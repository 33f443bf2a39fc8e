"""Finding and reading the configuration.

Writes a secret into a new file of its own, readable to its owner alone from the first moment on.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bridge.config.config import Config
from bridge.config.errors import Mistake, read_config
from storage.errors import LocalError

FILE_NAME = "palaver.toml"


class BadConfig(LocalError):
    """The configuration holds mistakes; all of them are in `mistakes`."""

    def __init__(self, where: str, mistakes: list[Mistake]) -> None:
        count = "one mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        lines = "".join(f"\n  - {mistake}" for mistake in mistakes)
        super().__init__(f"{where} has {count}:{lines}\n", "`palaver config example` prints every setting.")
        self.mistakes = mistakes


@dataclass(frozen=True)
class LoadedConfig:
    """A configuration, and the file that it came from if there was one."""

    config: Config
    path: Path | None


def load_config(path: Path | None, environ: Mapping[str, str], directory: Path) -> LoadedConfig:
    """Read `path`, or `palaver.toml` in `directory`, or nothing: the defaults are a working node."""
    given = path is not None
    path = path if path is not None else directory / FILE_NAME
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        if given:
            raise LocalError(
                f"There is no file {path}.", f"`palaver init --config {path}` writes one."
            ) from None
        text, path = "", None
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
    return (
        (error.strerror or "no reason given").lower()
        if isinstance(error, OSError)
        else "it is not UTF-8 text"
    )


def read_secret(path: Path, what: str) -> str:
    """The secret in a file of its own, without the newline that an editor adds."""
    try:
        secret = path.read_text("utf-8").strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise LocalError(
            f"The {what} in {path} can't be read: {_why(error)}.", "Check the path and who may read the file."
        ) from None
    if not secret:
        raise LocalError(
            f"The file {path} for the {what} is empty.", "Write the secret into it, alone on one line."
        )
    return secret


@contextlib.contextmanager
def new_secret_file(path: Path) -> Iterator[Callable[[str], None]]:
    """Gives what writes the secret: so it is known that there is a place for it before there is one.
    LocalError when there is none, or when something is there already. What fails inside leaves nothing
    behind."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise LocalError(
            f"There is something at {path} already.", "Name a file that does not exist yet."
        ) from None
    except OSError as error:
        raise LocalError(
            f"The file {path} can't be written: {error.strerror}.", "Name a file in a directory of yours."
        ) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        try:
            yield lambda secret: file.writelines((secret, "\n"))
            file.flush()
        except BaseException:
            path.unlink(missing_ok=True)
            raise
