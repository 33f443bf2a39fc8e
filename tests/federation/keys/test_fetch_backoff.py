"""The back-off before the keys of a server are fetched again."""

from federation.keys.fetch_backoff import MAX_DELAY, MIN_DELAY, FetchBackoff


def test_a_successful_fetch_resets_the_backoff() -> None:
    """So that a server may rotate its keys at any time."""
    assert FetchBackoff().may_fetch(0.0)
    assert FetchBackoff(failures=5, retry_at=100.0).after_fetch(50.0, found=True).may_fetch(50.0)


def test_each_failure_lengthens_the_backoff() -> None:
    """Up to a minute, which is also the longest delay of a new key after requests for invalid key ids."""
    backoff, now, waits = FetchBackoff(), 1000.0, []
    for _ in range(40):
        backoff = backoff.after_fetch(now, found=False)
        waits.append(backoff.retry_at - now)
        assert not backoff.may_fetch(backoff.retry_at - 0.001)
        assert backoff.may_fetch(backoff.retry_at)
        now = backoff.retry_at
    assert waits[:7] == [MIN_DELAY, 2.0, 4.0, 8.0, 16.0, 32.0, MAX_DELAY]
    assert set(waits[6:]) == {MAX_DELAY}
