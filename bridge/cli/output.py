"""How every command speaks: to a person on a terminal, or with --json to a program; errors too."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import typer
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

from bridge.config_mistakes import Mistake
from bridge.terminal_text import harmless_lines
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
