from collections.abc import Callable

import orjson
import pytest

from bench._harness.measurement import Measurement
from bench._limits.encoding import SECTION, Event, event


def test_the_event_and_its_text_are_one() -> None:
    """Both directions are measured on the same PDU, on which both encoders agree."""
    subject = event()
    assert orjson.loads(subject.text) == subject.value


@pytest.mark.parametrize("sample", [side.sample for row in SECTION.rows for side in row.sides])
def test_every_side_measures(sample: Callable[[Event, float], Measurement]) -> None:
    """All of them on the same event."""
    assert sample(event(), 0.001).operations > 0


def test_hashing_is_a_ceiling() -> None:
    """There is one SHA-256 that anybody would use."""
    assert [row.name for row in SECTION.rows if row.other is None] == ["sha256"]
