"""A local error has a problem and an advice."""

from storage.errors import LocalError


def test_the_text_has_both_sentences() -> None:
    """The text of the exception includes the advice."""
    error = LocalError("The disk is full.", "Free some space.")
    assert str(error) == "The disk is full. Free some space."
    assert (error.problem, error.advice) == ("The disk is full.", "Free some space.")
