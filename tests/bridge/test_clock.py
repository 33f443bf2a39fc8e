"""The time is read in one place."""

import time

from bridge.clock import monotonic, now_ms


def test_now_is_in_milliseconds_since_1970() -> None:
    """As Matrix writes times."""
    before = time.time()
    assert int(before * 1000) <= now_ms() <= int(time.time() * 1000) + 1


def test_monotonic_never_runs_backwards() -> None:
    """Deadlines are counted on it."""
    readings = [monotonic() for _ in range(1000)]
    assert readings == sorted(readings)
