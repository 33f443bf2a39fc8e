"""Parsed EDUs."""

from federation.transactions.edus import ToDevice


def test_the_content_of_a_to_device_message_is_not_in_its_repr() -> None:
    """The content is private and must not get into a log."""
    message = ToDevice("@a:a.example", "m.room.encrypted", "1", {"@b:b.example": {"*": {"secret": "x"}}})
    assert "secret" not in repr(message)
