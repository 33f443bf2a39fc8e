"""What an EDU says once it is read."""

from federation.transactions.edu_values import ToDevice


def test_what_was_sent_to_a_device_is_not_shown_by_accident() -> None:
    """A message to a device is nobody else's business: its representation, as in a log, leaves it out."""
    message = ToDevice("@a:a.example", "m.room.encrypted", "1", {"@b:b.example": {"*": {"secret": "x"}}})
    assert "secret" not in repr(message)
