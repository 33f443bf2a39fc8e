"""Canonical JSON: the form of a JSON value that is hashed and signed.

Specification, appendix "Canonical JSON": the shortest UTF-8 encoding, object keys sorted by code point,
numbers are integers between −(2**53)+1 and (2**53)−1. Room versions 3 to 5 do not enforce the numbers:
their events may contain floats and larger integers, and are encoded with `strict=False`.
"""

import json
from types import NoneType
from typing import Any, Final

import orjson
from canonicaljson import encode_canonical_json

MAX_DEPTH: Final = 250
"""Maximum nesting of objects and arrays for `encode`; orjson itself stops at 254."""

_MAX_DECODE_DEPTH: Final = 1000
"""Maximum nesting for `decode`. It is more than `MAX_DEPTH`, so that one too deeply nested event in a
response can be dropped alone, without the other events."""

_LEAVES: Final = frozenset({str, int, bool, NoneType})
_STRICT: Final = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER


class NotCanonical(ValueError):
    """The value has no canonical form."""


class NotJson(ValueError):
    """The bytes are not JSON, or are nested too deeply."""


def encode(value: Any, *, strict: bool = True, max_depth: int = MAX_DEPTH) -> bytes:
    """Encode a value canonically. Raises `NotCanonical`.

    Only the exact types of JSON are accepted: orjson would silently convert other types (a date, a member of
    an enum, a dataclass), which must not be signed.
    """
    has_float = _walk(value, max_depth)
    if strict:
        if has_float:
            raise NotCanonical("a number is not an integer")
        return encode_checked(value)
    return _encode_leniently(value)


def encode_checked(value: Any) -> bytes:
    """Encode a value that `encode` has accepted before, or a part of it, without searching for floats
    again."""
    try:
        return orjson.dumps(value, option=_STRICT)
    except TypeError as refused:  # orjson.JSONEncodeError is a TypeError
        raise NotCanonical(str(refused)) from None


def is_equal(one: Any, other: Any) -> bool:
    """Whether both have the same canonical form. In Python 1, 1.0 and True are equal, in JSON they are not. A
    value without canonical form equals nothing."""
    try:
        return encode(one) == encode(other)
    except NotCanonical:
        return False


def decode(body: bytes) -> Any:
    """Decode the body of a request or a response. Raises `NotJson`.

    The last of several equal keys wins. NaN, infinities, lone surrogates and invalid UTF-8 are refused.
    Numbers keep their type: `1.0` and `1e2` are floats and 2**64 is an integer, so that `encode` can check
    what was sent.
    """
    return decode_and_find_floats(body)[0]


def decode_and_find_floats(body: bytes) -> tuple[Any, bool]:
    """Like `decode`, and whether the value may contain floats. If not, `encode_checked` can encode it."""
    try:
        value = orjson.loads(body)
        if not _walk(value, _MAX_DECODE_DEPTH):
            return value, False
        # orjson decodes integers beyond 64 bits as floats. Only a second parser with integers of any size can
        # tell them apart. It is less strict in other respects, but orjson has already refused such bodies.
        return json.loads(body), True
    except (ValueError, RecursionError) as refused:
        raise NotJson(str(refused)) from None


def _encode_leniently(value: Any) -> bytes:
    """Encode an event of room version 3, 4 or 5, which may contain floats and large integers.

    The first servers were written in Python, so floats are written with Python's digits.
    """
    try:
        return encode_canonical_json(value)
    except ValueError as refused:  # NaN, or a lone surrogate
        raise NotCanonical(str(refused)) from None


def _walk(value: Any, max_depth: int) -> bool:
    """Check all values once, level by level, without recursion. Returns whether one of them is a float."""
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
