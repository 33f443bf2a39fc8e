"""Formats times and durations, which are in milliseconds, and parses durations like `90s`, `15m`, `2h` or
`30d`."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def moment(at_ms: int | None) -> str:
    """Format a time as `2026-01-31 12:00:00 UTC`. A time outside the calendar is returned as a number: remote
    servers can send any."""
    if at_ms is None:
        return "–"
    try:
        return f"{_EPOCH + timedelta(milliseconds=at_ms):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return str(at_ms)


def duration(milliseconds: int | None) -> str:
    """Format a duration in its two largest units: `3 min 20 s`."""
    if milliseconds is None:
        return "–"
    left = abs(milliseconds) // 1000
    parts = []
    for name, seconds in _UNITS:
        count, left = divmod(left, seconds)
        if count:
            parts.append(f"{count} {name}")
    return ("-" if milliseconds <= -1000 else "") + (" ".join(parts[:2]) or "0 s")


def ago(at_ms: int | None, now_ms: int) -> str:
    """Format a time relative to now: `3 min ago` or `in 3 min`."""
    if at_ms is None:
        return "–"
    return f"{duration(now_ms - at_ms)} ago" if at_ms <= now_ms else f"in {duration(at_ms - now_ms)}"


_SECONDS_OF_UNIT: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SPAN: Final = re.compile(r"([1-9][0-9]{0,8})([smhd])", re.ASCII)


def seconds_of(text: str) -> int | None:
    """Parse a duration like `90s` or `2h`, or return None if it is invalid or zero."""
    found = _SPAN.fullmatch(text)
    return None if found is None else int(found[1]) * _SECONDS_OF_UNIT[found[2]]
