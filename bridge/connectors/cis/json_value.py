"""Which JSON values may stand in an event of an agent, whoever sent it.

What is refused here could not be written again, or not be kept. Everything behind it may rely on that.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

from bridge.address import is_unicode

MAX_DEPTH: Final = 100
"""How many objects and arrays may lie within each other, the content included. Published nodes read 128, a
Matrix event has 127, and in both there is an envelope round the content."""

# What published nodes can hold: i64 and u64. Beyond, they would read another number.
MIN_INTEGER: Final = -(2**63)
MAX_INTEGER: Final = 2**64 - 1

_NAME_SHOWN: Final = 64


def problem_of(value: Any, max_depth: int = MAX_DEPTH) -> tuple[str, str] | None:
    """The path to the first thing that may not be there, and what is wrong with it; None if all is well."""
    level: list[tuple[str, Any]] = [("", [value])]
    depth = -1
    while level:
        depth += 1
        below: list[tuple[str, Any]] = []
        for path, container in level:
            if depth > max_depth:
                return path.partition(".")[0], f"is nested deeper than {max_depth} levels"
            is_object = type(container) is dict
            for name, item in container.items() if is_object else enumerate(container):
                if is_object and not (type(name) is str and name.isascii() and "\0" not in name):
                    problem = _problem_of_key(name)
                    if problem is not None:
                        return path or "content", problem
                kind = type(item)
                if kind is dict or kind is list:
                    below.append((_below(path, name, depth), item))
                elif not (kind is str and item.isascii() and "\0" not in item):
                    problem = _problem_of_leaf(item)
                    if problem is not None:
                        return _below(path, name, depth), problem
        level = below
    return None


def sendable(text: str) -> str:
    """Text of our own with a sign in place of what no event may hold."""
    if is_unicode(text) and "\0" not in text:
        return text
    return "".join("\ufffd" if one == "\0" or "\ud800" <= one <= "\udfff" else one for one in text)


def sendable_members(said: Mapping[str, Any], depth_around: int = 4) -> dict[str, Any]:
    """What of an object of our own can be sent. `depth_around` is how many levels lie round its values."""
    return {
        name: value
        for name, value in said.items()
        if problem_of({name: value}, MAX_DEPTH - depth_around) is None
    }


def _below(path: str, name: Any, depth: int) -> str:
    if depth == 0:
        return ""  # the list that was put round the value
    shown = str(name)[:_NAME_SHOWN]
    return f"{path}.{shown}" if path else shown


def _problem_of_key(name: Any) -> str | None:
    if type(name) is not str:
        return "has a name that is not a string"
    return None if is_unicode(name) and "\0" not in name else "has a name that holds NUL or half a character"


def _problem_of_leaf(value: Any) -> str | None:
    kind = type(value)
    if kind is str:
        if "\0" in value:
            return "holds NUL"
        return None if is_unicode(value) else "holds half a character"
    if kind is int:
        return None if MIN_INTEGER <= value <= MAX_INTEGER else "is a number that is too large"
    if kind is float:
        return None if math.isfinite(value) else "is not a number"
    return None if value is None or kind is bool else "is not JSON"
