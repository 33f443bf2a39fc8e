"""The clock, read in one place so that every decision can take the time as an argument."""

import time


def now_ms() -> int:
    """Milliseconds since 1970, the format of Matrix timestamps."""
    return time.time_ns() // 1_000_000


def monotonic() -> float:
    """Monotonic seconds, for deadlines."""
    return time.monotonic()
