"""`make bench NAME=appservice`, as far as that can be told without running it."""

from bench._harness.row import Row
from bench.appservice import APPSERVICE


def rows() -> dict[str, Row[object]]:
    return {row.name: row for section in APPSERVICE.sections for row in section.rows}


def test_every_figure_has_its_row() -> None:
    """In the order of the table, and of time: many at once make another room of it."""
    assert " ".join(APPSERVICE.row_names) == (
        "lone-p50 lone-p95 lone-own lone-synapse lone-synapse-postgres lone-postgres "
        "many many-p50 many-p95 many-own many-synapse many-synapse-postgres many-postgres "
        "after-p50 after-p95 many-threads"
    )


def test_the_ratio_is_that_of_the_messages_that_are_answered() -> None:
    """Many at once; the rest informs."""
    assert APPSERVICE.headline == "many"
    assert [name for name, row in rows().items() if row.counts and row.other is not None] == ["many"]


def test_ours_is_compared_with_a_bare_bot() -> None:
    """In the words of the last line; one row tells what it is to answer in threads."""
    sides = {name: (row.ours.name, row.other.name) for name, row in rows().items() if row.other is not None}
    assert sides.pop("many-threads") == ("Palaver", "that bot answering in threads")
    assert set(sides.values()) == {("Palaver", "a bare mautrix bot")}
