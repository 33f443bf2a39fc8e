import pytest

from bench._harness.plan import FULL, QUICK, Plan
from bench.federation import FEDERATION


@pytest.mark.parametrize(("full", "quick"), [(FULL, QUICK), (FEDERATION.full, FEDERATION.quick)])
def test_a_full_run_has_an_odd_number_of_rounds(full: Plan, quick: Plan) -> None:
    """So that a median is a figure that was measured."""
    assert full.rounds % 2 == quick.rounds % 2 == 1
    assert quick.seconds < full.seconds
