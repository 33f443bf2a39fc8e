"""The time, read in one place so that every decision can be given it as an argument."""

import time


def now_ms() -> int:
    """Milliseconds since 1970, as Matrix writes times."""
    return time.time_ns() // 1_000_000


def monotonic() -> float:
    """Seconds that never run backwards, for deadlines."""
    return time.monotonic()
