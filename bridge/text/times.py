"""Times and durations as a person reads them. All are milliseconds.

A span of time as a person writes it: a number and its unit, `90s`, `15m`, `2h`, `30d`.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def moment(at_ms: int | None) -> str:
    """`2026-01-31 12:00:00 UTC`. What no calendar holds is shown as the number it is: senders make it up."""
    if at_ms is None:
        return "–"
    try:
        return f"{_EPOCH + timedelta(milliseconds=at_ms):%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return str(at_ms)


def duration(milliseconds: int | None) -> str:
    """`3 min 20 s`: the two largest units of it."""
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
    """`3 min ago`, or when it will be."""
    if at_ms is None:
        return "–"
    return f"{duration(now_ms - at_ms)} ago" if at_ms <= now_ms else f"in {duration(at_ms - now_ms)}"


_SECONDS_OF_UNIT: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SPAN: Final = re.compile(r"([1-9][0-9]{0,8})([smhd])", re.ASCII)


def seconds_of(text: str) -> int | None:
    """None for what is no span, or is none at all."""
    found = _SPAN.fullmatch(text)
    return None if found is None else int(found[1]) * _SECONDS_OF_UNIT[found[2]]
