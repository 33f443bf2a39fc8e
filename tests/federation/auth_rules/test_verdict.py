"""The verdicts of the authorisation rules."""

from federation.auth_rules import ALLOWED, Allowed, Refused


def test_verdicts_compare_by_value() -> None:
    assert Allowed() == ALLOWED
    assert Refused("5.3.2", "no") == Refused("5.3.2", "no")
    assert Refused("5.3.2", "no") != Refused("5.3.2", "no", "detail")


def test_the_text_of_a_refusal() -> None:
    """The number, the rule, and the detail."""
    assert str(Refused("5.3.2", "No.")) == "rule 5.3.2: No."
    assert str(Refused("5.3.2", "No.", "that")) == "rule 5.3.2: No. (that)"
