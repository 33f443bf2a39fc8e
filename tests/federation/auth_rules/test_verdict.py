"""What the rules say of an event."""

from federation.auth_rules import ALLOWED, Allowed, Refused


def test_verdicts_are_values() -> None:
    """Two that say the same are equal, so that a test or a cache may compare them."""
    assert Allowed() == ALLOWED
    assert Refused("5.3.2", "no") == Refused("5.3.2", "no")
    assert Refused("5.3.2", "no") != Refused("5.3.2", "no", "detail")


def test_a_refusal_reads_as_a_sentence() -> None:
    """The number, the rule, and what of the event is meant."""
    assert str(Refused("5.3.2", "No.")) == "rule 5.3.2: No."
    assert str(Refused("5.3.2", "No.", "that")) == "rule 5.3.2: No. (that)"
