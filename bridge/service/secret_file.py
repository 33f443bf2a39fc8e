"""Writes a secret into a new file of its own, readable to its owner alone from the first moment on."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from storage.errors import LocalError


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
