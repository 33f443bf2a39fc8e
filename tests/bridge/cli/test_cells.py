"""Tables and lists of what others have written."""

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


def test_nothing_that_arrives_is_taken_for_more_than_text() -> None:
    """Neither for Rich's markup nor for the terminal's."""
    made = table("[red]name[/]", "text")
    hostile = "[bold]x[/] \x1b]0;you\x07 \u202eevil"
    add(made, hostile, hostile)
    said = written(made, facts({"n[b]": hostile}), cell(hostile), lines(hostile), width=200)
    assert said.count("[bold]x[/] \\x1b]0;you\\x07 \\u{202e}evil") == 5
    assert "n[b]" in said
    assert "\x1b" not in said


def test_a_person_reads_no_python() -> None:
    """Yes and no, a dash for nothing, lists without brackets."""
    assert cell(None).plain == "–"
    assert cell(True).plain == "yes"
    assert cell(["a", 1, False]).plain == "a, 1, no"
    assert cell({"a": 1, "b": {}}).plain == "a 1, b none"
    assert len(cell("x" * 2 * LONGEST).plain) == LONGEST + 1


def test_half_an_id_is_of_no_use() -> None:
    """What does not fit goes on in the next line."""
    made = table("id")
    add(made, "$" + "x" * 100)
    assert written(made, width=40).count("x") == 100


def test_a_time_stays_in_one_line() -> None:
    """However little room there is for it."""
    made = table("id", "at")
    add(made, "x" * 100, "2026-11-18 15:56:21 UTC")
    assert "2026-11-18 15:56:21 UTC" in written(made, width=50)


def test_one_is_not_several() -> None:
    """Nor is nothing."""
    assert [counted(number, "event") for number in (0, 1, 2)] == ["0 events", "1 event", "2 events"]


def test_a_fact_without_a_value_is_left_out() -> None:
    """But one that is no, or none of several, is one."""
    said = written(facts([("gone", None), ("empty", []), ("no", False), ("zero", 0), ("text", Text("t"))]))
    assert [line.split()[0] for line in said.splitlines()] == ["no", "zero", "text"]
