import re

import pytest

from bench._limits.event import SIZE, canonical, message


@pytest.mark.parametrize("size", [SIZE, 700, 2000])
def test_the_message_has_exactly_the_size(size: int) -> None:
    """The figures are quoted for 837 bytes."""
    assert len(canonical(message(size))) == size


def test_it_has_the_form_of_a_real_event() -> None:
    """Its ids, hash and signature are as long as real ones, since that is most of it."""
    event = message()
    for event_id in [*event["auth_events"], *event["prev_events"]]:
        assert re.fullmatch(r"\$[A-Za-z0-9_-]{43}", event_id)
    assert re.fullmatch(r"[A-Za-z0-9+/]{43}", event["hashes"]["sha256"])
    assert re.fullmatch(r"[A-Za-z0-9+/]{86}", event["signatures"]["kitchen.local"]["ed25519:a_1"])


def test_it_is_the_same_in_every_run() -> None:
    """Figures of different days are about the same bytes."""
    assert message() == message()


def test_an_event_cannot_be_smaller_than_itself() -> None:
    """Nothing is cut off."""
    with pytest.raises(AssertionError, match="the smallest message has"):
        message(100)
