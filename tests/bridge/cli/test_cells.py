"""Tables and lists with text of remote users."""

import io

from rich.console import Console
from rich.text import Text

from bridge.cli.output import LONGEST, add, cell, counted, facts, lines, table


def written(*what: object, width: int = 60) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=True, color_system=None, highlight=False)
    for one in what:
        console.print(one)
    return stream.getvalue()


def test_remote_text_is_not_interpreted() -> None:
    """Neither as markup of Rich nor as control characters of the terminal."""
    made = table("[red]name[/]", "text")
    hostile = "[bold]x[/] \x1b]0;you\x07 \u202eevil"
    add(made, hostile, hostile)
    result = written(made, facts({"n[b]": hostile}), cell(hostile), lines(hostile), width=200)
    assert result.count("[bold]x[/] \\x1b]0;you\\x07 \\u{202e}evil") == 5
    assert "n[b]" in result
    assert "\x1b" not in result


def test_values_are_formatted_for_people() -> None:
    """Booleans as yes and no, None as a dash, lists without brackets."""
    assert cell(None).plain == "–"
    assert cell(True).plain == "yes"
    assert cell(["a", 1, False]).plain == "a, 1, no"
    assert cell({"a": 1, "b": {}}).plain == "a 1, b none"
    assert len(cell("x" * 2 * LONGEST).plain) == LONGEST + 1


def test_a_wide_value_is_wrapped() -> None:
    """It is not truncated, because part of an id is useless."""
    made = table("id")
    add(made, "$" + "x" * 100)
    assert written(made, width=40).count("x") == 100


def test_a_time_is_not_wrapped() -> None:
    """Even if the table is narrow."""
    made = table("id", "at")
    add(made, "x" * 100, "2026-11-18 15:56:21 UTC")
    assert "2026-11-18 15:56:21 UTC" in written(made, width=50)


def test_counted_uses_singular_and_plural() -> None:
    """Zero is plural."""
    assert [counted(number, "event") for number in (0, 1, 2)] == ["0 events", "1 event", "2 events"]


def test_facts_without_a_value_are_omitted() -> None:
    """False and 0 are values."""
    result = written(facts([("gone", None), ("empty", []), ("no", False), ("zero", 0), ("text", Text("t"))]))
    assert [line.split()[0] for line in result.splitlines()] == ["no", "zero", "text"]
