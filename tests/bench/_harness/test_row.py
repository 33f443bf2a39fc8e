import pytest

from bench._harness.row import Unit, no_remarks
from tests.bench.samples import benchmark, row


@pytest.mark.parametrize(("unit", "ratio"), [(Unit.PER_SECOND, 4.0), (Unit.MILLISECONDS, 0.25), (Unit.MEBIBYTES, 0.25)])
def test_more_is_better_for_us_in_every_unit(unit: Unit, ratio: float) -> None:
    """Twice as many a second is 2, and so is half as many milliseconds."""
    assert unit.ratio(8.0, 2.0) == ratio


def test_every_round_measures_ours_first() -> None:
    """A ceiling has one side, every other row has two."""
    assert [side.name for side in row().sides] == ["A", "B"]
    assert [side.name for side in row(compared=False).sides] == ["A"]


def test_the_rows_of_a_benchmark_have_names_of_their_own() -> None:
    """`--rows` could not tell them apart otherwise."""
    assert benchmark(row("a"), row("b")).row_names == ("a", "b")
    with pytest.raises(AssertionError, match="two rows"):
        benchmark(row("a"), row("a"))


def test_the_headline_is_one_of_the_rows() -> None:
    """A misspelt headline is found when the benchmark is made, not after it has run."""
    with pytest.raises(AssertionError, match="no row 'c'"):
        benchmark(row("a"), headline="c")


def test_a_section_need_not_remark_anything() -> None:
    """The default."""
    assert list(no_remarks(object())) == []
