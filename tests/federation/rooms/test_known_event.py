"""`KnownEvent`: events with their verdicts."""

import pytest

from federation.events.received import ACCEPTED, Rejected, SoftFailed, Verdict
from federation.rooms.receive_checks import known_event
from tests.support.rooms import Room


@pytest.mark.parametrize(
    "verdict", [ACCEPTED, SoftFailed("5.3.7", "Otherwise, reject."), Rejected("6", "a: b: c")], ids=str
)
def test_a_verdict_is_stored(verdict: Verdict) -> None:
    """With the rule's number and text, even if they contain colons."""
    event = known_event(Room("12").create, verdict, 1, 2)
    assert event.result == verdict
    assert not event.is_outlier


def test_an_outlier_has_no_state() -> None:
    """The state before it is unknown."""
    assert known_event(Room("12").create, ACCEPTED).is_outlier
