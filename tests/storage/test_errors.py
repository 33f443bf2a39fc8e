"""A local error is two sentences: what is wrong, and what to do."""

from storage.errors import LocalError


def test_both_sentences_are_shown() -> None:
    """Whoever reads only the text of the exception still gets the advice."""
    error = LocalError("The disk is full.", "Free some space.")
    assert str(error) == "The disk is full. Free some space."
    assert (error.problem, error.advice) == ("The disk is full.", "Free some space.")
