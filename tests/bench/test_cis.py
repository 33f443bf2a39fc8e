"""`make bench NAME=cis`, as far as that can be told without running it."""

from bench._harness.row import Row
from bench.cis import CIS


def rows() -> dict[str, Row[object]]:
    return {row.name: row for section in CIS.sections for row in section.rows}


def test_every_figure_has_its_row() -> None:
    """In the order of the table."""
    assert " ".join(CIS.row_names) == (
        "one-p50 one-p95 one-p99 ten-p50 ten-p95 ten-p99 "
        "one-asking one-asking-postgres one-answering one-answering-postgres first "
        "sustained sustained-asking sustained-asking-postgres "
        "sustained-answering sustained-answering-postgres "
        "learn learn-cpu learn-postgres learn-memory rows rows-bytes table-bytes load load-cpu load-memory "
        "beat beat-cpu beat-postgres route notice"
    )


def test_the_ratio_is_that_of_ten_milliseconds_over_the_median() -> None:
    """Of one task at a time; the rest informs."""
    assert CIS.headline == "one-p50"
    assert [name for name, row in rows().items() if row.counts and row.other is not None] == ["one-p50"]
    other = rows()["one-p50"].other
    assert other is not None
    assert other.name == "10 ms"
