"""When a transaction is answered."""

from appservice.answer_pace import BUSY, HELD, SURPLUS, AnswerPace


def held(pace: AnswerPace, gap: float, count: int, *, events: int = 1, since: float = 0.0) -> list[float]:
    return [pace.hold(events, since + number * gap) for number in range(count)]


def test_what_comes_one_by_one_is_answered_at_once() -> None:
    """However long it goes on."""
    assert set(held(AnswerPace(), 1 / BUSY, 1_000)) == {0.0}


def test_what_comes_thick_and_fast_is_gathered() -> None:
    """After a first surplus, and until it is calm again for a moment."""
    pace = AnswerPace()
    fast = held(pace, 0.25 / BUSY, 200)
    assert fast[: int(SURPLUS)] == [0.0] * int(SURPLUS)
    assert set(fast[40:]) == {HELD}
    assert pace.hold(1, 1_000.0) == 0.0


def test_one_large_transaction_is_busy() -> None:
    """It is what has been gathered; and no more is remembered of it than a moment."""
    pace = AnswerPace()
    assert pace.hold(100, 0.0) == HELD
    assert pace.hold(1, 2 * SURPLUS / BUSY) == 0.0


def test_empty_transactions_are_answered_at_once() -> None:
    """What is worth something for a moment is no event."""
    assert set(held(AnswerPace(), 0.0, 1_000, events=0)) == {0.0}


def test_a_clock_that_stands_still() -> None:
    """Is no reason to forget."""
    pace = AnswerPace()
    assert held(pace, 0.0, 20)[-1] == HELD
    assert pace.hold(1, -5.0) == HELD
