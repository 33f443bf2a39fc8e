"""What happens to a task, and what is to be done."""

from bridge.tasks.messages import Due


def test_what_is_due_is_remembered_by_these_words() -> None:
    """They stand in the database."""
    assert [due.value for due in Due] == ["deliver", "cancel", "answer", "show"]
