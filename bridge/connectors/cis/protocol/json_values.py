"""Which JSON values an agent event may contain, and how numbers are encoded in a Matrix event.

Values are refused that could not be encoded again or stored. All code behind this check relies on that.

Canonical JSON has only integers between −(2**53)+1 and (2**53)−1. CIS content may hold any JSON number, and
the cost of a run, for example, is seldom an integer. In a Matrix event such a number is replaced by its JSON
text, and `io.palaver.numbers` lists the positions as JSON pointers (RFC 6901). A Palaver node restores the
numbers from this list; any other reader sees a string.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from bridge.agents.address import is_unicode
from bridge.connectors.cis.protocol.refusals import InvalidPayload

MAX_DEPTH: Final = 100
"""How deeply objects and arrays may be nested, including the content itself. Published nodes read 128 levels,
a Matrix event may have 127, and both wrap the content in an envelope."""

# The range of published nodes: i64 and u64. They would misread a number outside it.
MIN_INTEGER: Final = -(2**63)
MAX_INTEGER: Final = 2**64 - 1

_NAME_SHOWN: Final = 64


def problem_of(value: Any, max_depth: int = MAX_DEPTH) -> tuple[str, str] | None:
    """Return the path of the first value that is not allowed, and the problem; None if all values are
    allowed."""
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
    """Return local text with U+FFFD in place of NUL and surrogates, which no event may contain."""
    if is_unicode(text) and "\0" not in text:
        return text
    return "".join("\ufffd" if char == "\0" or "\ud800" <= char <= "\udfff" else char for char in text)


def sendable_members(members: Mapping[str, Any], depth_around: int = 4) -> dict[str, Any]:
    """Return the members of a local object that an event may contain. `depth_around` is the number of levels
    that will enclose its values."""
    return {
        name: value for name, value in members.items() if problem_of({name: value}, MAX_DEPTH - depth_around) is None
    }


def _below(path: str, name: Any, depth: int) -> str:
    if depth == 0:
        return ""  # the list that `problem_of` puts around the value
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


NUMBERS_KEY: Final = "io.palaver.numbers"
_LARGEST: Final = 2**53 - 1
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_LONGEST: Final = 40


def encode_numbers(content: dict[str, Any]) -> dict[str, Any]:
    """Return the content as a Matrix event can hold it; the same object if no number has to be encoded."""
    content = (
        {name: value for name, value in content.items() if name != NUMBERS_KEY} if NUMBERS_KEY in content else content
    )
    pointers = [*_pointers(content, "")]
    if not pointers:
        return content
    encoded: dict[str, Any] = _copy(content)
    for pointer in pointers:
        container, name = _locate(encoded, pointer)
        container[name] = orjson.dumps(container[name]).decode()
    encoded[NUMBERS_KEY] = pointers
    return encoded


def decode_numbers(content: dict[str, Any]) -> dict[str, Any] | InvalidPayload:
    """Reverse `encode_numbers`. A pointer to text that is not a JSON number is refused."""
    pointers = content.get(NUMBERS_KEY)
    if pointers is None:
        return content
    if not isinstance(pointers, list) or not all(isinstance(one, str) for one in pointers):
        return InvalidPayload(NUMBERS_KEY, "is not a list of JSON pointers")
    decoded: dict[str, Any] = _copy({name: value for name, value in content.items() if name != NUMBERS_KEY})
    for pointer in pointers:
        try:
            container, name = _locate(decoded, pointer)
            number = _number(container[name])
        except (LookupError, TypeError, ValueError):
            number = None
        if number is None:
            return InvalidPayload(NUMBERS_KEY, "points to a value that is not a number")
        container[name] = number
    return decoded


def _pointers(value: Any, path: str) -> Iterator[str]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for name, item in items:
        if isinstance(item, dict | list):
            yield from _pointers(item, f"{path}/{_escape(name)}")
        elif type(item) is float or (type(item) is int and not -_LARGEST <= item <= _LARGEST):
            yield f"{path}/{_escape(name)}"


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(item) for name, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _locate(content: dict[str, Any], pointer: str) -> tuple[Any, Any]:
    """Return the object or array that holds the pointer's target, and the target's key in it. Raises
    LookupError, TypeError or ValueError if the pointer has no target."""
    root, *names = pointer.split("/")
    if root or not names:
        raise ValueError("a JSON pointer must begin with /")
    container: Any = content
    for name in names[:-1]:
        container = container[_key(container, name)]
    return container, _key(container, names[-1])


def _key(container: Any, name: str) -> Any:
    if isinstance(container, dict):
        return name.replace("~1", "/").replace("~0", "~")
    if isinstance(container, list) and name.isascii() and name.isdigit() and len(name) < 10:
        return int(name)
    raise LookupError("a scalar has no members")


def _escape(name: Any) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")


def _number(text: Any) -> int | float | None:
    if not isinstance(text, str) or len(text) > _LONGEST or _NUMBER.fullmatch(text) is None:
        return None
    if text.lstrip("-").isdigit():
        integer = int(text)
        return integer if MIN_INTEGER <= integer <= MAX_INTEGER else None
    number = float(text)
    return number if abs(number) != float("inf") else None
