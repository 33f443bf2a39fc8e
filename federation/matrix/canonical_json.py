"""Canonical JSON: the one form of a JSON value that is hashed and signed.

Specification, appendix "Canonical JSON": the shortest UTF-8 encoding, object keys sorted by code point,
numbers are integers between −(2**53)+1 and (2**53)−1. Room versions 3 to 5 do not enforce the numbers:
their events may hold floats and larger integers, and are written with `strict=False`.
"""

import json
from types import NoneType
from typing import Any, Final

import orjson
from canonicaljson import encode_canonical_json

MAX_DEPTH: Final = 250
"""How deep `encode` follows objects and arrays within each other; orjson itself stops at 254."""

_MAX_DECODE_DEPTH: Final = 1000
"""How deep `decode` reads. It is more than `MAX_DEPTH`, so that one monstrous event among the hundred of an
answer can be dropped by itself and does not take the others with it."""

_LEAVES: Final = frozenset({str, int, bool, NoneType})
_STRICT: Final = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER


class NotCanonical(ValueError):
    """The value has no canonical form."""


class NotJson(ValueError):
    """The bytes are not JSON, or nest deeper than anything honest does."""


def encode(value: Any, *, strict: bool = True, max_depth: int = MAX_DEPTH) -> bytes:
    """Write a value canonically, or raise `NotCanonical`.

    Only the exact types that JSON has are accepted: what orjson would silently turn into a string (a date, a
    member of an enum, a dataclass) was never meant to be signed.
    """
    has_float = _walk(value, max_depth)
    if strict:
        if has_float:
            raise NotCanonical("a number is not an integer")
        return encode_checked(value)
    return _encode_leniently(value)


def encode_checked(value: Any) -> bytes:
    """Write what `encode` has accepted before, or parts of it; floats are not looked for a second time."""
    try:
        return orjson.dumps(value, option=_STRICT)
    except TypeError as refused:  # orjson.JSONEncodeError is a TypeError
        raise NotCanonical(str(refused)) from None


def is_equal(one: Any, other: Any) -> bool:
    """Whether both are written alike. Python takes 1, 1.0 and True for equal; in JSON they are three things.
    What has no canonical form is like nothing else."""
    try:
        return encode(one) == encode(other)
    except NotCanonical:
        return False


def decode(body: bytes) -> Any:
    """Read a request's or an answer's body, or raise `NotJson`.

    The last of several equal keys wins. NaN, infinities, lone surrogates and invalid UTF-8 are refused.
    Numbers keep their kind: `1.0` and `1e2` are floats and 2**64 an integer, so that `encode` sees what was
    sent.
    """
    return decode_and_find_floats(body)[0]


def decode_and_find_floats(body: bytes) -> tuple[Any, bool]:
    """The same, and whether there may be floats in it. Where there are none nobody has to look for them
    again before it is written."""
    try:
        value = orjson.loads(body)
        if not _walk(value, _MAX_DECODE_DEPTH):
            return value, False
        # orjson reads integers beyond 64 bits as floats. Whether this float was one can only be told by
        # reading again with a parser that has integers of any size; what that one is lax on, orjson has
        # already refused.
        return json.loads(body), True
    except (ValueError, RecursionError) as refused:
        raise NotJson(str(refused)) from None


def _encode_leniently(value: Any) -> bytes:
    """Write an event of room version 3, 4 or 5, where floats and large integers are as the sender made them.

    The first servers were written in Python, so the digits of a float are Python's.
    """
    try:
        return encode_canonical_json(value)
    except ValueError as refused:  # NaN, or a lone surrogate
        raise NotCanonical(str(refused)) from None


def _walk(value: Any, max_depth: int) -> bool:
    """Look at every value once, level by level, without recursion. Tells whether one of them is a float."""
    has_float = False
    depth = 0
    level: list[Any] = [[value]]
    while level:
        if depth > max_depth:
            raise NotCanonical(f"nested deeper than {max_depth}")
        depth += 1
        below: list[Any] = []
        for container in level:
            items: Any = container
            if type(container) is dict:
                items = container.values()
                for key in container:
                    if type(key) is not str:
                        raise NotCanonical(f"a key is a {type(key).__name__}")
            for item in items:
                kind = type(item)
                if kind in _LEAVES:
                    continue
                if kind is dict or kind is list:
                    below.append(item)
                elif kind is float:
                    has_float = True
                else:
                    raise NotCanonical(f"a value is a {kind.__name__}")
        level = below
    return has_float
