"""A span of time as a person writes it: a number and its unit, `90s`, `15m`, `2h`, `30d`."""

import re
from collections.abc import Mapping
from typing import Final

_UNITS: Final[Mapping[str, int]] = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_SPAN: Final = re.compile(r"([1-9][0-9]{0,8})([smhd])", re.ASCII)


def seconds_of(text: str) -> int | None:
    """None for what is no span, or is none at all."""
    found = _SPAN.fullmatch(text)
    return None if found is None else int(found[1]) * _UNITS[found[2]]
