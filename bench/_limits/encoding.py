"""JSON and hashing: the cost of an event's bytes before its content is examined."""

import hashlib
import json
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from canonicaljson import encode_canonical_json

from bench._harness.measurement import Measurement
from bench._harness.repeat import repeat
from bench._harness.row import Row, Section, Side
from bench._limits.event import SIZE, canonical, message

# Refuses the integers that Matrix refuses, so that this is what Palaver pays, not only what it could pay.
_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
_KILOBYTE = b"\x5a" * 1024


@dataclass(frozen=True, slots=True)
class Event:
    """One PDU as a value and as text."""

    value: dict[str, Any]
    text: bytes


def event() -> Event:
    """Both encoders have to produce the same bytes, or the row would compare different things."""
    value = message()
    text = canonical(value)
    assert orjson.dumps(value, option=_CANONICAL) == text, "orjson's sorted form is not canonical JSON here"
    return Event(value, text)


def encode_with_orjson(subject: Event, seconds: float) -> Measurement:
    """`orjson.dumps` with sorted keys."""
    return repeat(seconds, partial(orjson.dumps, subject.value, option=_CANONICAL))


def encode_with_canonicaljson(subject: Event, seconds: float) -> Measurement:
    """The reference library of the Matrix project."""
    return repeat(seconds, partial(encode_canonical_json, subject.value))


def parse_with_orjson(subject: Event, seconds: float) -> Measurement:
    """`orjson.loads` of bytes."""
    return repeat(seconds, partial(orjson.loads, subject.text))


def parse_with_json(subject: Event, seconds: float) -> Measurement:
    """The standard library, given bytes, as orjson is."""
    return repeat(seconds, partial(json.loads, subject.text))


def sha256(subject: Event, seconds: float) -> Measurement:
    """One hash object and its digest per hash, as for content hashes and event ids."""
    return repeat(seconds, lambda: hashlib.sha256(_KILOBYTE).digest())


SECTION = Section(
    setup=lambda: nullcontext(event()),
    rows=[
        Row(
            name="canonical-json",
            what=f"canonical JSON of a PDU, {SIZE} B",
            ours=Side("orjson", encode_with_orjson),
            other=Side("canonicaljson", encode_with_canonicaljson),
        ),
        Row(
            name="json-parse",
            what=f"parse a PDU, {SIZE} B",
            ours=Side("orjson", parse_with_orjson),
            other=Side("json", parse_with_json),
        ),
        Row(name="sha256", what="SHA-256 of 1 KB", ours=Side("hashlib", sha256)),
    ],
)
