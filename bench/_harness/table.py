"""The table for people, and the last line, which programs read as well."""

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from bench._harness.measurement import median_value
from bench._harness.result import Headline, Result
from bench._harness.row import Unit


def figure(unit: Unit, value: float) -> str:
    """Format a figure with its significant digits."""
    if unit is Unit.MILLISECONDS:
        return f"{value:.3f}"
    return f"{value:,.0f}" if value >= 100 or unit is Unit.CALLS else f"{value:.1f}"


def ratio(value: float | None) -> str:
    """Format a ratio with the two digits that a quiet machine reproduces."""
    return "" if value is None else f"{value:.2f}"


def table(title: str, results: Sequence[Result], notes: Sequence[str]) -> Table:
    """Return one line per row; `notes` are needed to interpret the figures."""
    drawn = Table(title=title, box=box.SIMPLE_HEAD, caption=Text("\n".join(notes)), caption_justify="left")
    drawn.add_column("row", no_wrap=True)
    drawn.add_column("what")
    for heading in ("ours", "other", "unit", "ratio", "quartiles"):
        drawn.add_column(heading, justify="left" if heading == "unit" else "right", no_wrap=True)
    for result in results:
        drawn.add_row(*(Text(cell) for cell in _cells(result)))
    return drawn


def _cells(result: Result) -> tuple[str, ...]:
    row, quartiles = result.row, result.quartiles
    against = "" if row.other is None else f" over {row.other.name}"
    remark = " (information)" if row.other is not None and not row.counts else ""
    return (
        row.name,
        f"{row.what}: {row.ours.name}{against}{remark}",
        figure(row.unit, median_value(result.ours)),
        figure(row.unit, median_value(result.other)) if result.other else "",
        row.unit.value,
        ratio(result.ratio) or ("" if row.unit is Unit.CALLS else "ceiling"),
        "" if quartiles is None else f"{ratio(quartiles[0])}–{ratio(quartiles[1])}",
    )


def last_line(name: str, found: Headline | None) -> str:
    """Return `NAME: ratio R (what over what, …)`; above 1 is better for Palaver; the worst of all rows is
    marked as such."""
    if found is None:
        return f"{name}: no ratio (no selected row counts towards it)"
    row = found.row
    assert row.other is not None, "a ratio has two sides"
    rows = "1 row" if found.worst_of == 1 else f"{found.worst_of} rows"
    which = "" if found.worst_of is None else f"; the worst of {rows}"
    return f"{name}: ratio {ratio(found.ratio)} ({row.ours.name} over {row.other.name}, {row.what}{which})"
