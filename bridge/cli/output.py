"""The output and the shared options of all commands.

Every command prints text for people, or JSON with --json; errors as well. Much of what a node returns was
written by remote users, so it is never interpreted as markup, and control characters are removed before it is
printed.
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
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from bridge.config.errors import Mistake, overrides
from bridge.config.files import LoadedConfig, load_config
from bridge.control.client import TIMEOUT, ask_node
from bridge.control.running_nodes import FILE_NAME, newest
from bridge.node.data_directory import LOCK
from bridge.text.terminal import harmless, harmless_lines
from storage.errors import LocalError

FAILED = 1


class Output:
    """Prints the result, the messages and the errors of a command as text or as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.out = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self.err = Console(file=sys.stderr, highlight=False, soft_wrap=True)

    def show(self, value: Mapping[str, Any], print_text: Callable[[Console], None] | None = None) -> None:
        """Print the result: `value` as JSON, or the text that `print_text` prints; by default a list of
        `value`'s items."""
        if self.as_json:
            sys.stdout.write(json.dumps(value, default=str) + "\n")
            sys.stdout.flush()
        elif print_text is not None:
            print_text(self.out)
        else:
            self.out.print(pairs(value))

    def note(self, text: str) -> None:
        """Print a message that is not part of the result; not with --json."""
        if not self.as_json:
            self.out.print(text, markup=False)

    def fail(self, error: LocalError, mistakes: list[Mistake] | None = None) -> NoReturn:
        """Print the error and exit with `FAILED`."""
        if self.as_json:
            fields: dict[str, Any] = {"problem": error.problem, "advice": error.advice}
            if mistakes is not None:
                fields["mistakes"] = [vars(mistake) for mistake in mistakes]
            sys.stdout.write(json.dumps({"error": fields}) + "\n")
        else:
            self.err.print("[bold red]palaver:[/] ", end="")
            space = "" if error.problem.endswith("\n") else " "
            self.err.print(harmless_lines(f"{error.problem}{space}{error.advice}"), markup=False)
        raise typer.Exit(FAILED)

    @contextmanager
    def progress(self, title: str) -> Iterator[Callable[[int, int, str], None]]:
        """Show progress of long work: a bar on a terminal, otherwise a line for each step, nothing with
        --json. Yields a function that reports the number of finished steps, their total and the current
        step."""
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
    """A table of names and values, both chosen by this program."""
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
            return ", ".join(f"{str(key).replace('_', ' ')} {_plain(inner)}" for key, inner in item.items()) or "none"
        case list() | tuple():
            return ", ".join(map(_plain, item)) or "none"
        case _:
            return str(item).replace("[", r"\[")


_WHOLE: Final = frozenset({"at", "since", "next attempt", "state"})
LONGEST: Final = 500
"""Maximum number of characters in a cell."""


def cell(value: Any, style: str = "") -> Text:
    """A value as text for people, without control characters."""
    return Text(harmless(_plain_value(value), LONGEST), style)


def lines(text: str, style: str = "") -> Text:
    """Text of any length that may contain line feeds, without other control characters."""
    return Text(harmless_lines(text), style)


def table(*columns: str) -> Table:
    """An empty table. A value that is wider than its column is wrapped, because a truncated id is useless."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold", no_wrap=column in _WHOLE)
    return made


def add(to: Table, *values: Any) -> None:
    """Add a row. A value that is a `Text` is added unchanged."""
    to.add_row(*(value if isinstance(value, Text) else cell(value) for value in values))


def facts(items: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Table:
    """A table of names and values. Items whose value is None or an empty list are omitted."""
    made = Table.grid(padding=(0, 2))
    made.add_column(no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in items.items() if isinstance(items, Mapping) else items:
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


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        envvar="PALAVER_CONFIG",
        help="The configuration file. Default: ./palaver.toml, if it exists.",
        show_default=False,
    ),
]


def loaded(path: Path | None) -> LoadedConfig:
    """Load the configuration that the option --config names."""
    return load_config(path, os.environ, Path.cwd())


def ask(path: Path | None, command: str, *, timeout_secs: float = TIMEOUT, **arguments: Any) -> dict[str, Any]:
    """Send a command to the running node and return its answer. `path` is the option --config. Arguments that
    are None are not sent."""
    given = {name: value for name, value in arguments.items() if value is not None}
    return asyncio.run(ask_node(node_directory(path), command, given, timeout_secs=timeout_secs))


def node_directory(path: Path | None) -> Path:
    """The data directory of the node that a command is for: of the configuration, or, in a directory without
    one, of the node that this user started last."""
    found = loaded(path)
    data_dir = found.config.data_dir
    is_configured = path is not None or found.path is not None or bool(overrides(os.environ))
    if is_configured or any((data_dir / name).exists() for name in (LOCK, FILE_NAME)):
        return data_dir
    running = newest(os.environ)
    if running is None:
        return data_dir
    sys.stderr.write(f"Using the node in {harmless(str(running))}.\n")
    return running
