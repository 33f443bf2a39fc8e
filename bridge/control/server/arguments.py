"""Validates the arguments of commands on the control socket, and converts errors of rooms and peers to errors
for the operator. The command line sends valid arguments, but other programs may not."""

from collections.abc import Mapping
from typing import Any, Final

from federation.matrix.errors import MatrixError, PeerError
from storage.errors import LocalError

LONGEST: Final = 4_096
"""Maximum characters of a text: more than any identifier or search needs."""
MAX_TEXTS: Final = 20


class Arguments:
    """The arguments of a command. Methods raise `LocalError` for invalid values."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given

    def text(self, name: str, longest: int = LONGEST) -> str:
        value = self.optional_text(name, longest)
        if not value:
            raise LocalError(f"The command needs {name}.", "See the command's `--help`.")
        return value

    def optional_text(self, name: str, longest: int = LONGEST) -> str | None:
        """The text may be empty, because a state key may be."""
        value = self._given.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or len(value) > longest or not _is_storable(value):
            raise LocalError(f"{name} is not a valid name or id.", "Copy it from the output of another command.")
        return value

    def texts(self, name: str, most: int = MAX_TEXTS) -> list[str]:
        """Return a list of texts that are not empty."""
        values = self._given.get(name)
        if values is None:
            return []
        if not isinstance(values, list) or len(values) > most:
            raise LocalError(f"{name} is not a list of at most {most} texts.", "Send fewer texts.")
        return [Arguments({name: value}).text(name) for value in values]

    def number(self, name: str, default: int, most: int) -> int:
        """Return a number from 1 to `most`."""
        value = self._given.get(name)
        if value is None:
            return default
        if type(value) is not int or not 1 <= value <= most:
            raise LocalError(f"{name} is not a number from 1 to {most}.", "Use a number in this range, or the default.")
        return value

    def flag(self, name: str) -> bool:
        return self._given.get(name) is True


def _is_storable(text: str) -> bool:
    """Postgres accepts neither NUL characters nor lone surrogates."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def to_local_error(error: MatrixError | PeerError, advice: str) -> LocalError:
    return LocalError(describe_error(error), advice)


def describe_error(error: MatrixError | PeerError) -> str:
    """A sentence that names the peer or the error code."""
    if isinstance(error, PeerError):
        return f"{error.peer} {error.problem.rstrip('.')}."
    return f"{error.text} ({error.errcode})"
