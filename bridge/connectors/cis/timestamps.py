"""Times as they stand in events: RFC 3339, of any precision."""

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_LONGEST: Final = 64
_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)


def read(text: str) -> datetime | None:
    """In UTC; None for what is no time.

    "Nine fractional digits in timestamps are common": what is finer than a microsecond is cut off.
    """
    match = _TIME.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    *parts, fraction, sign, offset_hours, offset_minutes = match.groups()
    year, month, day, hour, minute, second = map(int, parts)
    if second > 60 or (sign and (int(offset_hours) > 23 or int(offset_minutes) > 59)):
        return None
    micros = int((fraction or "")[:6].ljust(6, "0"))
    try:
        if sign is None and second < 60:
            return datetime(year, month, day, hour, minute, second, micros, UTC)
        offset = timedelta(hours=int(offset_hours), minutes=int(offset_minutes)) if sign else timedelta()
        zone = timezone(-offset if sign == "-" else offset)
        # RFC 3339 has a second 60 for leap seconds; it is as long as the one after it.
        time = datetime(year, month, day, hour, minute, min(second, 59), micros, zone)
        return (time + timedelta(seconds=second // 60)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def write(time: datetime) -> str:
    """As short as it can be said: `2026-02-08T10:30:00Z`, `…00.250Z`, `…00.250001Z`."""
    precision = (
        "microseconds" if time.microsecond % 1000 else "milliseconds" if time.microsecond else "seconds"
    )
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def of(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


def milliseconds(time: datetime) -> int:
    """Since 1970; what is finer is cut off."""
    return (time - _EPOCH) // _MILLISECOND
