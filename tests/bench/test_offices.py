"""`make bench NAME=offices`, as far as that can be told without running it."""

from bench._harness.row import Row
from bench.offices import OFFICES


def rows() -> dict[str, Row[object]]:
    return {row.name: row for section in OFFICES.sections for row in section.rows}


def test_every_figure_has_its_row() -> None:
    """In the order of the table."""
    assert " ".join(OFFICES.row_names) == (
        "one one-p50 one-p95 one-own one-postgres "
        "fifty fifty-p50 fifty-p95 fifty-own fifty-postgres "
        "lone-p50 lone-p95 lone-own lone-postgres "
        "across-beyond across-p50 across-p95"
    )


def test_the_ratio_is_that_of_the_calls_that_are_answered() -> None:
    """In one office, many at once; that of fifty offices counts as well, and the rest informs."""
    assert OFFICES.headline == "one"
    counting = [name for name, row in rows().items() if row.counts and row.other is not None]
    assert counting == ["one", "fifty"]


def test_ours_is_compared_with_the_published_server() -> None:
    """In the words of the last line; across two nodes, with what was set."""
    sides = {(row.ours.name, row.other.name) for row in rows().values() if row.other is not None}
    assert sides == {("Palaver", "the reference server"), ("Palaver", "15 ms")}
