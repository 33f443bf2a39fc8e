"""Tables and lists of what a node says. Much of it was written by others, so nothing in it is taken for
markup, and nothing reaches the terminal itself."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from bridge.terminal_text import harmless, harmless_lines

_WHOLE: Final = frozenset({"at", "since", "next attempt", "state"})
LONGEST: Final = 500
"""Characters in one cell."""


def cell(value: Any, style: str = "") -> Text:
    """A value as a person reads it."""
    return Text(harmless(_plain(value), LONGEST), style)


def lines(text: str, style: str = "") -> Text:
    """Text with line feeds of our own making, of any length."""
    return Text(harmless_lines(text), style)


def table(*columns: str) -> Table:
    """What does not fit into its column goes on in the next line: half a name is of no use."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold", no_wrap=column in _WHOLE)
    return made


def add(to: Table, *values: Any) -> None:
    """A row; a value that is a `Text` already stays what it is."""
    to.add_row(*(value if isinstance(value, Text) else cell(value) for value in values))


def facts(said: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Table:
    """Names on the left, values on the right; what has no value is left out."""
    made = Table.grid(padding=(0, 2))
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in said.items() if isinstance(said, Mapping) else said:
        if value is not None and value != []:
            made.add_row(Text(name, "bold"), value if isinstance(value, Text) else cell(value))
    return made


def counted(number: int, word: str) -> str:
    """`1 event`, `2 events`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _plain(value: Any) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case Mapping():
            return ", ".join(f"{key} {_plain(inner)}" for key, inner in value.items()) or "none"
        case list() | tuple():
            return ", ".join(map(_plain, value)) or "none"
        case _:
            return str(value)
