"""RFC 2782: the order of SRV records."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.client.srv_records import MAX_RECORDS, SrvRecord, in_order, is_refusal

RECORDS = st.lists(
    st.builds(
        SrvRecord,
        priority=st.integers(0, 65_535),
        weight=st.integers(0, 65_535),
        port=st.integers(0, 65_535),
        target=st.sampled_from(["a.test.", "b.test.", "."]),
    ),
    max_size=MAX_RECORDS + 3,
)
DRAWS = st.lists(st.floats(0, 1), min_size=MAX_RECORDS, max_size=MAX_RECORDS)


@given(records=RECORDS, draws=DRAWS)
def test_lower_priorities_come_first(records: list[SrvRecord], draws: list[float]) -> None:
    """ "A client MUST attempt to contact the target host with the lowest-numbered priority it can reach." """
    ordered = in_order(records, draws)
    assert [one.priority for one in ordered] == sorted(one.priority for one in records[:MAX_RECORDS])
    assert Counter(ordered) == Counter(records[:MAX_RECORDS])


def test_weights_decide_how_often() -> None:
    """ "Larger weights SHOULD be given a proportionately higher probability of being selected." """
    drawn = random.Random(1)
    heavy, light, none = (SrvRecord(0, weight, 1, f"{weight}.") for weight in (3, 1, 0))
    first = Counter(in_order([none, light, heavy], [drawn.random() for _ in range(3)])[0] for _ in range(10_000))
    assert first[heavy] == pytest.approx(7500, abs=200)
    assert first[light] == pytest.approx(2500, abs=200)
    assert first[none] < 30


def test_a_dot_refuses_the_service() -> None:
    """ "A Target of "." means that the service is decidedly not available at this domain." """
    assert is_refusal([SrvRecord(0, 0, 0, ".")])
    assert not is_refusal([SrvRecord(0, 0, 0, "."), SrvRecord(0, 0, 1, "a.")])
    assert not is_refusal([])
