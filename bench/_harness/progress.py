"""Progress on standard error: a bar on a terminal, one plain line per row elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from bench._harness.measurement import median_value
from bench._harness.result import Result
from bench._harness.row import Row, Side
from bench._harness.table import figure, ratio


class Progress(Protocol):
    """The events that the rounds report."""

    def measuring(self, row: Row[Any], side: Side[Any], number: int) -> None:
        """A sample of this side begins, in the round of this number."""

    def measured(self, result: Result) -> None:
        """A row is done."""


class Lines:
    """For a file, a pipe or a log: one line per finished row."""

    def measuring(self, row: Row[Any], side: Side[Any], number: int) -> None:
        """Say nothing: a line for each sample would be too many."""

    def measured(self, result: Result) -> None:
        """Print the row's figures."""
        unit = result.row.unit
        parts = [f"{result.row.name}: {figure(unit, median_value(result.ours))} {unit.value}"]
        if result.other:
            parts += [figure(unit, median_value(result.other)), f"ratio {ratio(result.ratio)}"]
        print(", ".join(parts), file=sys.stderr, flush=True)


class OnTerminal:
    """A bar that is drawn between samples only, so that drawing affects no figure."""

    def __init__(self, bar: Bar, samples: int) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=samples)
        self._begun = 0

    def measuring(self, row: Row[Any], side: Side[Any], number: int) -> None:
        """Show which side of which row is being measured."""
        self._bar.update(self._task, completed=self._begun, description=f"{row.name}: {side.name}, round {number + 1}")
        self._bar.refresh()
        self._begun += 1

    def measured(self, result: Result) -> None:
        """Show nothing: the bar moves on with the next sample."""


@contextmanager
def progress(samples: int) -> Iterator[Progress]:
    """Return the progress display for standard error; `samples` is the total number."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield Lines()
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=console, auto_refresh=False, transient=True) as bar:
        yield OnTerminal(bar, samples)
