import io
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress as Bar

from bench._harness.progress import Lines, OnTerminal, progress
from tests.bench.samples import result, row


def test_elsewhere_than_on_a_terminal_a_row_is_a_plain_line(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, so that standard output holds the table and the last line."""
    with progress(2) as shown:
        assert isinstance(shown, Lines)
        shown.measuring(row(), row().ours, 0)
        shown.measured(result("compared", 3000, 1000))
        shown.measured(result("alone", 5, None))
    captured = capsys.readouterr()
    assert captured.err.splitlines() == ["compared: 3,000 per second, 1,000, ratio 3.00", "alone: 5.0 per second"]
    assert captured.out == ""


def test_on_a_terminal_there_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich decides what a terminal is."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress(2) as shown:
        assert isinstance(shown, OnTerminal)


def test_the_bar_counts_the_samples_that_are_over() -> None:
    """And names the one being measured; nothing draws it while that is under way."""
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with Bar(console=console, auto_refresh=False) as bar:
        shown = OnTerminal(bar, 4)
        subject: Any = row("row")
        shown.measuring(subject, subject.ours, 0)
        shown.measuring(subject, subject.other, 0)
        shown.measured(result("row", 1, 1))
        [task] = bar.tasks
        assert (task.completed, task.total, task.description) == (1, 4, "row: B, round 1")
