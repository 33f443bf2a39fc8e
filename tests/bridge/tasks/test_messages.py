"""Messages and effects of a task."""

from bridge.tasks.messages import Due


def test_the_stored_names_of_due_effects() -> None:
    """The database contains these names."""
    assert [due.value for due in Due] == ["deliver", "cancel", "answer", "show"]
