"""How every command speaks: to a person on a terminal, or with --json to a program; errors too.

Tables and lists of what a node says. Much of it was written by others, so nothing in it is taken for
markup, and nothing reaches the terminal itself.

Options that many commands share, and what they lead to.

Commands that the running node carries out.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from bridge.config.errors import Mistake
from bridge.config.files import LoadedConfig, load_config
from bridge.control.client import PATIENCE, ask_node
from bridge.text.terminal import harmless, harmless_lines
from storage.errors import LocalError

FAILED = 1


class Output:
    """One command's voice."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.out = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self.err = Console(file=sys.stderr, highlight=False, soft_wrap=True)

    def show(self, value: Mapping[str, Any], for_people: Callable[[Console], None] | None = None) -> None:
        """The result: `value` for a program, `for_people` (or a plain list of it) for a person."""
        if self.as_json:
            sys.stdout.write(json.dumps(value, default=str) + "\n")
            sys.stdout.flush()
        elif for_people is not None:
            for_people(self.out)
        else:
            self.out.print(pairs(value))

    def say(self, text: str) -> None:
        """A remark on the way, for people only."""
        if not self.as_json:
            self.out.print(text, markup=False)

    def fail(self, error: LocalError, mistakes: list[Mistake] | None = None) -> NoReturn:
        if self.as_json:
            answer: dict[str, Any] = {"problem": error.problem, "advice": error.advice}
            if mistakes is not None:
                answer["mistakes"] = [vars(mistake) for mistake in mistakes]
            sys.stdout.write(json.dumps({"error": answer}) + "\n")
        else:
            self.err.print("[bold red]palaver:[/] ", end="")
            self.err.print(harmless_lines(f"{error.problem} {error.advice}"), markup=False)
        raise typer.Exit(FAILED)

    @contextmanager
    def progress(self, title: str) -> Iterator[Callable[[int, int, str], None]]:
        """Long work: a bar on a terminal, a line for each step elsewhere, nothing with --json."""
        if self.as_json:
            yield lambda done, total, what: None
        elif self.err.is_terminal:
            columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
            with Progress(*columns, TimeElapsedColumn(), console=self.err, transient=True) as bar:
                task = bar.add_task(title, total=None)
                yield lambda done, total, what: bar.update(
                    task, completed=done, total=total or None, description=f"{title}: {what}"
                )
        else:
            yield lambda done, total, what: self.err.print(f"{title}: {what} ({done}/{total})", markup=False)


def pairs(value: Mapping[str, Any]) -> Table:
    """Names on the left, values on the right."""
    table = Table.grid(padding=(0, 2))
    for name, item in value.items():
        table.add_row(f"[bold]{name.replace('_', ' ')}[/]", _plain(item))
    return table


def _plain(item: Any) -> str:
    match item:
        case None:
            return "–"
        case bool():
            return "yes" if item else "no"
        case Mapping():
            return (
                ", ".join(f"{str(key).replace('_', ' ')} {_plain(inner)}" for key, inner in item.items())
                or "none"
            )
        case list() | tuple():
            return ", ".join(map(_plain, item)) or "none"
        case _:
            return str(item).replace("[", r"\[")


_WHOLE: Final = frozenset({"at", "since", "next attempt", "state"})
LONGEST: Final = 500
"""Characters in one cell."""


def cell(value: Any, style: str = "") -> Text:
    """A value as a person reads it."""
    return Text(harmless(_plain_value(value), LONGEST), style)


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


def _plain_value(value: Any) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case Mapping():
            return ", ".join(f"{key} {_plain_value(inner)}" for key, inner in value.items()) or "none"
        case list() | tuple():
            return ", ".join(map(_plain_value, value)) or "none"
        case _:
            return str(value)


Json = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        envvar="PALAVER_CONFIG",
        help="The configuration; ./palaver.toml if there is one.",
        show_default=False,
    ),
]


def loaded(path: Path | None) -> LoadedConfig:
    return load_config(path, os.environ, Path.cwd())


def ask(path: Path | None, command: str, *, patience: float = PATIENCE, **arguments: Any) -> dict[str, Any]:
    """The node's answer; `path` is the configuration. What was left out is not sent."""
    given = {name: value for name, value in arguments.items() if value is not None}
    return asyncio.run(ask_node(loaded(path).config.data_dir, command, given, patience=patience))
