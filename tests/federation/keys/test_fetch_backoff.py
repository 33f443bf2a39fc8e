"""How often a server is asked for its keys."""

from federation.keys.fetch_backoff import MAX_DELAY, MIN_DELAY, FetchBackoff


def test_it_is_open_at_first_and_after_what_was_looked_for_came() -> None:
    """A server may rotate its keys in the middle of a conversation."""
    assert FetchBackoff().is_open(0.0)
    assert FetchBackoff(failures=5, closed_until=100.0).after(50.0, found=True).is_open(50.0)


def test_each_failure_closes_it_for_longer() -> None:
    """Up to a minute, which is also the longest that a new key waits when somebody made up key ids before."""
    gate, now, waits = FetchBackoff(), 1000.0, []
    for _ in range(40):
        gate = gate.after(now, found=False)
        waits.append(gate.closed_until - now)
        assert not gate.is_open(gate.closed_until - 0.001)
        assert gate.is_open(gate.closed_until)
        now = gate.closed_until
    assert waits[:7] == [MIN_DELAY, 2.0, 4.0, 8.0, 16.0, 32.0, MAX_DELAY]
    assert set(waits[6:]) == {MAX_DELAY}
