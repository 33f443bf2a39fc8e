"""The output of commands."""

import io
import json

import pytest
import typer
from rich.console import Console

from bridge.cli.output import Output, pairs
from bridge.config.errors import Mistake
from storage.errors import LocalError


def _text(value: dict[str, object]) -> str:
    stream = io.StringIO()
    Console(file=stream, width=120).print(pairs(value))
    return stream.getvalue()


def test_values_are_formatted_for_people() -> None:
    """Without Python syntax, and without interpreting markup."""
    text = _text({"server_name": "a[red]b", "ready": True, "metrics": None, "list": [1, 2], "more": {"x": [], "y": {}}})
    assert "server name  a[red]b" in text
    assert "ready        yes" in text
    assert "metrics      –" in text
    assert "list         1, 2" in text
    assert "more         x none, y none" in text


def test_the_json_output_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Notes are not printed."""
    output = Output(as_json=True)
    output.note("a note")
    output.show({"a": 1}, lambda console: console.print("for people"))
    assert capsys.readouterr().out == '{"a": 1}\n'


def test_an_error_has_the_same_parts_as_text_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Problem, advice and mistakes. The exit code is not zero."""
    error = LocalError("It [bold]broke[/].", "Mend it.")
    with pytest.raises(typer.Exit) as left:
        Output(as_json=False).fail(error)
    assert left.value.exit_code == 1
    assert "It [bold]broke[/]. Mend it." in capsys.readouterr().err
    with pytest.raises(typer.Exit):
        Output(as_json=True).fail(error, [Mistake("a", "b", "c", "d")])
    assert json.loads(capsys.readouterr().out)["error"] == {
        "problem": "It [bold]broke[/].",
        "advice": "Mend it.",
        "mistakes": [{"where": "a", "problem": "b", "advice": "c", "excerpt": "d"}],
    }


def test_progress_is_printed_as_lines_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """One for each step, on standard error."""
    with Output(as_json=False).progress("Saving") as progress:
        progress(1, 2, "node")
    assert capsys.readouterr().err == "Saving: node (1/2)\n"
    with Output(as_json=True).progress("Saving") as progress:
        progress(1, 2, "node")
    assert capsys.readouterr().err == ""


def test_progress_is_a_bar_on_a_terminal() -> None:
    """With the current step."""
    output = Output(as_json=False)
    output.err = Console(file=io.StringIO(), force_terminal=True, width=100)
    with output.progress("Saving") as progress:
        progress(1, 2, "node")
    assert isinstance(output.err.file, io.StringIO)
    assert "Saving" in output.err.file.getvalue()
