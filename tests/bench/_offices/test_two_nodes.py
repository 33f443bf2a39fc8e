"""What is read off runs of two nodes, whose figures are known here."""

import sys

import pytest

from bench._harness.child import child
from bench._offices.two_nodes import ACROSS, TwoNodes, beyond, latency, rows, wanted
from tests.bench._federation.scripted import ANSWER

RUN = "{'durations': [0.002, 0.003, 0.004] if of == 'local' else [0.01, 0.012, 0.02], 'seconds': seconds}"


async def test_what_two_nodes_take_beyond_one() -> None:
    """The medians of one run, in milliseconds."""
    async with child("the script", sys.executable, "-c", ANSWER, RUN) as generator:
        nodes = TwoNodes(generator, [])
        assert (await beyond(nodes, 1.0)).value == pytest.approx(9.0)
        assert (await latency(nodes, 1.0, name=ACROSS, percent=50)).value == pytest.approx(12.0)
        assert wanted(nodes, 1.0).value == 15.0


def test_every_figure_has_its_row() -> None:
    """Of which one has an aim."""
    assert [row.name for row in rows()] == ["across-beyond", "across-p50", "across-p95"]
    assert [row.other.name for row in rows() if row.other is not None] == ["15 ms"]
