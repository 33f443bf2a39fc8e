import io
import re

import pytest
from rich.console import Console

from bench._harness.result import Headline, Result
from bench._harness.row import Unit
from bench._harness.table import figure, last_line, ratio, table
from tests.bench.samples import milliseconds, per_second, result, row


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        (Unit.PER_SECOND, 2_712_345.6, "2,712,346"),
        (Unit.PER_SECOND, 12.345, "12.3"),
        (Unit.MILLISECONDS, 0.12345, "0.123"),
        (Unit.MEBIBYTES, 123.45, "123"),
        (Unit.CALLS, 0, "0"),
    ],
)
def test_a_figure_has_the_digits_that_mean_something(unit: Unit, value: float, text: str) -> None:
    """No more and no fewer."""
    assert figure(unit, value) == text


def test_a_ratio_has_two_digits() -> None:
    """And a ceiling's is empty."""
    assert ratio(1.005) in {"1.00", "1.01"}
    assert ratio(137.0) == "137.00"
    assert ratio(None) == ""


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (Headline(row("r"), 1.126, 9), "limits: ratio 1.13 (A over B, what r does; the worst of 9 rows)"),
        (Headline(row("r"), 0.5, 1), "limits: ratio 0.50 (A over B, what r does; the worst of 1 row)"),
        (Headline(row("r"), 3.0, None), "limits: ratio 3.00 (A over B, what r does)"),
        (None, "limits: no ratio (no selected row counts towards it)"),
    ],
)
def test_the_last_line_says_what_over_what(found: Headline | None, line: str) -> None:
    """`NAME: ratio R (what over what)`; the worst of several rows says that it is."""
    assert last_line("limits", found) == line
    assert found is None or re.fullmatch(r"\w+: ratio \d+\.\d\d \(.+ over .+\)", line)


def test_the_table_has_a_line_for_each_row_and_the_notes_below() -> None:
    """What, ours, the other, the ratio; a ceiling and an information are called so."""
    rows = [
        result("compared", 3000, 1000),
        result("told", 90, 100, counts=False),
        result("alone", 5, None),
        Result(row("waited", unit=Unit.MILLISECONDS), milliseconds(0.2), milliseconds(0.3)),
        Result(row("counted", compared=False, unit=Unit.CALLS), per_second(3), ()),
    ]
    console = Console(file=io.StringIO(), width=150)
    console.print(table("limits", rows, ["[remark] one", "remark two"]))
    assert isinstance(console.file, io.StringIO)
    lines = [" ".join(line.split()) for line in console.file.getvalue().splitlines()]
    assert "row what ours other unit ratio quartiles" in lines
    assert "compared what compared does: A over B 3,000 1,000 per second 3.00 3.00–3.00" in lines
    assert "told what told does: A over B (information) 90.0 100 per second 0.90 0.90–0.90" in lines
    assert "alone what alone does: A 5.0 per second ceiling" in lines
    assert "waited what waited does: A over B 0.200 0.300 ms 1.50 1.50–1.50" in lines
    assert "counted what counted does: A 3 calls" in lines
    assert lines[-2:] == ["[remark] one", "remark two"]
