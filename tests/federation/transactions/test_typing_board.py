"""Who is typing where, and until when that is believed."""

from federation.transactions.ephemeral import TypingBoard

A, B = "@a:x", "@b:x"


def test_who_types_is_seen_until_the_time_is_over() -> None:
    """Put again, it lasts longer, and is no news."""
    board = TypingBoard()
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


def test_who_stops_is_gone_at_once() -> None:
    """And does not end a second time."""
    board = TypingBoard()
    board.put("!r", A, 50)
    assert board.remove("!r", A)
    assert not board.remove("!r", A)
    assert not board.remove("!other", A)
    assert board.deadline() is None
    assert board.expire(100) == []
    assert board.users("!r") == ()


def test_it_does_not_grow_for_ever() -> None:
    """Neither by users and rooms, nor by one who is put again and again."""
    board = TypingBoard(most=3, most_in_room=2)
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
