"""How often a server is asked for its keys."""

from federation.keys.fetch_gate import FIRST, LONGEST, FetchGate


def test_it_is_open_at_first_and_after_what_was_looked_for_came() -> None:
    """A server may rotate its keys in the middle of a conversation."""
    assert FetchGate().is_open(0.0)
    assert FetchGate(failures=5, closed_until=100.0).after(50.0, found=True).is_open(50.0)


def test_each_failure_closes_it_for_longer() -> None:
    """Up to a minute, which is also the longest that a new key waits when somebody made up key ids before."""
    gate, now, waits = FetchGate(), 1000.0, []
    for _ in range(40):
        gate = gate.after(now, found=False)
        waits.append(gate.closed_until - now)
        assert not gate.is_open(gate.closed_until - 0.001)
        assert gate.is_open(gate.closed_until)
        now = gate.closed_until
    assert waits[:7] == [FIRST, 2.0, 4.0, 8.0, 16.0, 32.0, LONGEST]
    assert set(waits[6:]) == {LONGEST}
