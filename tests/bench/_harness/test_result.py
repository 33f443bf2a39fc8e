import pytest

from bench._harness.result import Result, headline
from bench._harness.row import Unit
from tests.bench.samples import benchmark, milliseconds, per_second, result, row


def test_the_ratio_is_the_median_of_the_rounds_own() -> None:
    """A machine that is slow for some rounds slows both sides of them, and the ratio does not notice.

    The quotient of the medians, 100 by 20, would say 5 where most of the rounds say 2.
    """
    assert Result(row(), per_second(20, 100, 400), per_second(10, 20, 200)).ratio == 2


def test_fewer_milliseconds_are_a_ratio_above_one() -> None:
    """More is better for us."""
    assert Result(row(unit=Unit.MILLISECONDS), milliseconds(2), milliseconds(5)).ratio == pytest.approx(2.5)


def test_half_of_the_rounds_lie_between_the_quartiles() -> None:
    """They say how far the ratio can be trusted; one round is both of them."""
    five = Result(row(), per_second(1, 2, 3, 4, 5), per_second(1, 1, 1, 1, 1))
    assert five.quartiles == (2.0, 4.0)
    assert Result(row(), per_second(3), per_second(2)).quartiles == (1.5, 1.5)


def test_a_ceiling_has_no_ratio() -> None:
    """It is compared with nothing."""
    ceiling = result("ceiling", 5, None)
    assert ceiling.ratio is None
    assert ceiling.quartiles is None
    assert ceiling.ratios == []


def test_the_worst_row_that_counts_is_the_headline() -> None:
    """Ceilings have no ratio and information says nothing about us: neither enters."""
    results = [
        result("good", 30, 10),
        result("worst", 11, 10),
        result("information", 1, 10, counts=False),
        result("ceiling", 5, None),
    ]
    found = headline(benchmark(*(each.row for each in results)), results)
    assert found is not None
    assert (found.row.name, found.ratio, found.worst_of) == ("worst", 1.1, 2)


def test_a_loss_is_not_hidden() -> None:
    """A ratio below one is a ratio."""
    lost = result("lost", 5, 10)
    found = headline(benchmark(lost.row), [lost])
    assert found is not None
    assert found.ratio == 0.5


def test_a_chosen_row_is_the_headline_even_when_another_is_worse() -> None:
    """A benchmark about one thing says which."""
    results = [result("chosen", 30, 10), result("worse", 11, 10)]
    chosen = benchmark(*(each.row for each in results), headline="chosen")
    found = headline(chosen, results)
    assert found is not None
    assert (found.row.name, found.ratio, found.worst_of) == ("chosen", 3, None)
    assert headline(chosen, results[1:]) is None


def test_without_a_comparison_there_is_no_headline() -> None:
    """Nothing is made up."""
    ceiling = result("ceiling", 5, None)
    assert headline(benchmark(ceiling.row), [ceiling]) is None
