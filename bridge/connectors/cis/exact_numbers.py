"""Numbers that a Matrix event cannot hold, in one that says the same.

Canonical JSON has integers between −(2**53)+1 and (2**53)−1 and no others; contents of CIS have what JSON
has, and the cost of a run is seldom a round number. In a Matrix event such a number stands as the text that
JSON has for it, and `io.palaver.numbers` lists where, as JSON pointers (RFC 6901). Whoever knows the list
reads the number that was written; everybody else reads a text.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import orjson

from bridge.connectors.cis.json_value import MAX_INTEGER, MIN_INTEGER
from bridge.connectors.cis.refusals import InvalidPayload

KEY: Final = "io.palaver.numbers"
_LARGEST: Final = 2**53 - 1
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_LONGEST: Final = 40


def written(content: dict[str, Any]) -> dict[str, Any]:
    """The content as a Matrix event can hold it. It is the same object where nothing has to be said."""
    content = {name: value for name, value in content.items() if name != KEY} if KEY in content else content
    pointers = [*_pointers(content, "")]
    if not pointers:
        return content
    made: dict[str, Any] = _copy(content)
    for pointer in pointers:
        container, name = _place(made, pointer)
        container[name] = orjson.dumps(container[name]).decode()
    made[KEY] = pointers
    return made


def restored(content: dict[str, Any]) -> dict[str, Any] | InvalidPayload:
    """What `written` was given. Nothing is taken for a number that does not look like one."""
    pointers = content.get(KEY)
    if pointers is None:
        return content
    if not isinstance(pointers, list) or not all(isinstance(one, str) for one in pointers):
        return InvalidPayload(KEY, "is not a list of JSON pointers")
    made: dict[str, Any] = _copy({name: value for name, value in content.items() if name != KEY})
    for pointer in pointers:
        try:
            container, name = _place(made, pointer)
            number = _number(container[name])
        except (LookupError, TypeError, ValueError):
            number = None
        if number is None:
            return InvalidPayload(KEY, "names something that is not a number")
        container[name] = number
    return made


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


def _place(content: dict[str, Any], pointer: str) -> tuple[Any, Any]:
    """The object or array that holds what the pointer names, and its key there. Raises for one that leads
    nowhere."""
    root, *names = pointer.split("/")
    if root or not names:
        raise ValueError("a pointer begins with /")
    container: Any = content
    for name in names[:-1]:
        container = container[_key(container, name)]
    return container, _key(container, names[-1])


def _key(container: Any, name: str) -> Any:
    if isinstance(container, dict):
        return name.replace("~1", "/").replace("~0", "~")
    if isinstance(container, list) and name.isascii() and name.isdigit() and len(name) < 10:
        return int(name)
    raise LookupError("there is nothing below")


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
