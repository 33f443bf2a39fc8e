"""What a command was given through the control socket, looked at before it is used.

The command line that comes with this node sends nothing wrong; another program may.

What other servers and the rules of rooms say, told to the operator.
"""

from collections.abc import Mapping
from typing import Any, Final

from federation.matrix.errors import MatrixError, PeerError
from storage.errors import LocalError

LONGEST: Final = 4_096
"""Characters: more than any identifier or search has."""
MOST_TEXTS: Final = 20


class Arguments:
    """Every refusal is a `LocalError` for the person at the command line."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given

    def text(self, name: str, longest: int = LONGEST) -> str:
        value = self.optional_text(name, longest)
        if not value:
            raise LocalError(f"The command needs {name}.", "`--help` shows how it is given.")
        return value

    def optional_text(self, name: str, longest: int = LONGEST) -> str | None:
        """It may be empty: a state key is."""
        value = self._given.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or len(value) > longest or not _is_storable(value):
            raise LocalError(
                f"{name} is not a text that anything here is called.", "Write it as it was shown."
            )
        return value

    def texts(self, name: str, most: int = MOST_TEXTS) -> list[str]:
        """None of them is empty."""
        values = self._given.get(name)
        if values is None:
            return []
        if not isinstance(values, list) or len(values) > most:
            raise LocalError(f"{name} is not a list of up to {most} texts.", "Give fewer of them.")
        return [Arguments({name: value}).text(name) for value in values]

    def number(self, name: str, default: int, most: int) -> int:
        """Between 1 and `most`."""
        value = self._given.get(name)
        if value is None:
            return default
        if type(value) is not int or not 1 <= value <= most:
            raise LocalError(
                f"{name} is not a number from 1 to {most}.", "Give one in between, or leave it out."
            )
        return value

    def flag(self, name: str) -> bool:
        return self._given.get(name) is True


def _is_storable(text: str) -> bool:
    """Postgres takes no NUL and no lone surrogate."""
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def told(error: MatrixError | PeerError, advice: str) -> LocalError:
    return LocalError(sentence(error), advice)


def sentence(error: MatrixError | PeerError) -> str:
    """Whose refusal it is, and in which words."""
    if isinstance(error, PeerError):
        return f"{error.peer} {error.problem.rstrip('.')}."
    return f"{error.text} ({error.errcode})"
