"""The dates of HTTP. RFC 9110, 5.6.7: the one form that is still sent."""

import re
from datetime import UTC, datetime
from typing import Final

_DATE: Final = re.compile(r"\w{3}, (\d{2}) (\w{3}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) GMT", re.ASCII)
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def read_http_date(text: str) -> datetime | None:
    match = _DATE.fullmatch(text.strip())
    if match is None or match[2] not in _MONTHS:
        return None
    day, month, year, hour, minute, second = match.groups()
    try:
        date = datetime(int(year), _MONTHS.index(month) + 1, int(day), tzinfo=UTC)
        return date.replace(hour=int(hour), minute=int(minute), second=int(second))
    except ValueError:
        return None
