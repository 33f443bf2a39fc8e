"""The users typing in each room, and their deadlines."""

from federation.transactions.edu_dispatcher import TypingTracker

A, B = "@a:x", "@b:x"


def test_typing_ends_at_its_deadline() -> None:
    """Repeating it moves the deadline and is not a change."""
    board = TypingTracker()
    assert board.deadline() is None
    assert board.put("!r", B, 50)
    assert board.put("!r", A, 30)
    assert not board.put("!r", A, 60)
    assert board.users("!r") == (A, B)
    assert board.deadline() == 50
    assert board.expire(49) == []
    assert board.expire(50) == [("!r", B)]
    assert board.users("!r") == (A,)
    assert board.expire(1000) == [("!r", A)]
    assert board.deadline() is None


def test_a_user_who_stops_is_removed_at_once() -> None:
    """The user does not expire afterwards."""
    board = TypingTracker()
    board.put("!r", A, 50)
    assert board.remove("!r", A)
    assert not board.remove("!r", A)
    assert not board.remove("!other", A)
    assert board.deadline() is None
    assert board.expire(100) == []
    assert board.users("!r") == ()


def test_the_size_is_bounded() -> None:
    """Users, rooms and repeated notifications are all limited."""
    board = TypingTracker(max_users=3, max_in_room=2)
    assert board.put("!r", A, 1)
    assert board.put("!r", B, 1)
    assert not board.put("!r", "@c:x", 1)
    assert board.put("!s", A, 1)
    assert not board.put("!t", A, 1)
    assert board.users("!t") == ()
    for until in range(2, 1000):
        board.put("!r", A, until)
    assert len(board._ends) <= 2 * 3 + 101
    assert board.expire(998) == [("!r", B), ("!s", A)]
    assert board.deadline() == 999
