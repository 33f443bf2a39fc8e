from collections.abc import Callable
from typing import Any

import pytest
from pycrdt import Array, Map

from bench._harness.measurement import Measurement
from bench._limits.documents import ENTRIES, SECTION, Documents, documents, entry, key, loaded, repeat_afresh

_ADDED = 1_000


@pytest.fixture(scope="module")
def subject() -> Documents:
    return documents()


def test_ten_thousand_entries_are_there_already(subject: Documents) -> None:
    """The same ones in the map and in the array."""
    in_map = loaded(subject.of_map).get("entries", type=Map[Any])
    in_array = loaded(subject.of_array).get("entries", type=Array[Any])
    assert len(in_map) == len(in_array) == ENTRIES == 10_000
    assert in_map[key(4711)].to_py() == in_array[4711].to_py() == entry(4711).to_py()


def test_each_update_adds_one_entry(subject: Documents) -> None:
    """In the order in which a peer would have sent them."""
    document = loaded(subject.of_map)
    entries = document.get("entries", type=Map[Any])
    for number, addition in enumerate(subject.additions[:3], start=1):
        document.apply_update(addition)
        assert len(entries) == ENTRIES + number
    assert len(subject.additions) == _ADDED


def test_what_an_operation_changes_is_fresh_every_thousand_times() -> None:
    """Otherwise "ten thousand entries" would soon be twenty."""
    prepared: list[int] = []

    def prepare() -> Callable[[], object]:
        prepared.append(0)

        def operation() -> None:
            prepared[-1] += 1

        return operation

    measured = repeat_afresh(0.002, prepare)
    assert set(prepared) == {_ADDED}
    assert measured.operations == sum(prepared)


@pytest.mark.parametrize("sample", [side.sample for row in SECTION.rows for side in row.sides])
def test_every_side_measures(sample: Callable[[Documents, float], Measurement], subject: Documents) -> None:
    """Whole batches of a thousand."""
    assert sample(subject, 0.001).operations % _ADDED == 0


def test_what_ezagent_dictates_is_information() -> None:
    """Its timeline is an array: the row shows the price, and does not enter the benchmark's ratio."""
    assert [row.counts for row in SECTION.rows if row.other is not None] == [False]
