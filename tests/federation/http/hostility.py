"""Malicious and malformed input: strings, numbers and structures that are valid JSON, nearly valid or
invalid; valid bodies that contain them; and unusual paths and queries."""

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.federation.http.well_meant import HASH

_CHANCE = random.Random(1)


def _noise(length: int) -> str:
    """Incompressible text, which exceeds the limit of an index."""
    return "".join(_CHANCE.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=length))


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@dataclass(frozen=True)
class Raw:
    """Literal text in JSON, whether or not that is valid."""

    text: str


@dataclass(frozen=True)
class Twice:
    """An object with a duplicate key."""

    name: str
    first: Any
    second: Any


STRINGS = (
    "", " ", "\0", "a\0b", "\n", "'", '"', "\\", "%00", "..", "../../../etc/passwd", "*", "?",
    "\u202e\u2028\ufeff", "\U0001f600", "\U0001f600" * 64, "é" * 128, "ﬀ", "ı", "true", "null", "-1", "1e400",
    "NaN", "__proto__", "$", "!", "@", "#", ":", "@:", "@a", "@:evil.test", "@bob:evil.test",
    "@alice:good.test", "@nobody:good.test", "@\0:evil.test", f"@{_noise(250)}:evil.test",
    f"@{'é' * 120}:evil.test", "!a:good.test", f"!{HASH}", "!\0:x", f"!{_noise(5_000)}:x", "$a", f"${HASH}",
    "$\0", f"${_noise(5_000)}",
    f"${_noise(50_000)}", _noise(3_000), "#a:good.test", "good.test", "evil.test", "[::1]", "127.0.0.1:1",
    "a:99999", "http://[::1]/", "mxc://good.test/../x", "join", "leave", "ban", "invite", "knock", "12", "99",
    "ed25519:a", "ed25519:test", "2" * 400,
)  # fmt: skip
NUMBERS = (
    0, -1, 1, 100, 2**31, 2**53 - 1, 2**53, -(2**53), 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**300, 1.5,
    -0.0, 1e300, True, False,
)  # fmt: skip
RAW = tuple(Raw(text) for text in (
    "NaN", "-Infinity", "1e999", "01", "- 1", '"\\ud800"', '"a\\udfffb"', '"\\u0000"', "9" * 5_000, "tru",
    "'a'", "[" * 120 + "]" * 120, "[" * 400 + "]" * 400, "[" * 2_000 + "]" * 2_000,
    '{"a":' * 300 + "1" + "}" * 300, "[" * 100_000,
))  # fmt: skip
STRUCTURES: tuple[Any, ...] = (
    None, {}, [], [[]], [None], {"": ""}, {"\0": "\0"}, [{}], {"a": {"b": {"c": []}}}, ["a"] * 300,
    {str(number): number for number in range(300)}, [{}] * 60, [f"${number}" for number in range(30)],
    Twice("membership", "join", "ban"), Twice("type", 1, "m.room.name"),
)  # fmt: skip

FEW: tuple[Any, ...] = (
    None, True, 2**63, {}, [], {"\0": "\0"}, "\0", "a", f"${_noise(5_000)}", "\U0001f600" * 250, _nested(120),
)  # fmt: skip
"""Of each kind one: what a column, an index, a number or a reader cannot hold."""


def hostile(examples: int) -> Any:
    """Malicious values, the same in each run."""
    return settings(
        max_examples=examples, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )


texts = st.sampled_from(STRINGS) | st.text(max_size=20)
values = st.one_of(texts, st.sampled_from(NUMBERS), st.sampled_from(RAW), st.sampled_from(STRUCTURES))
legal_values = st.one_of(texts, st.sampled_from(NUMBERS), st.sampled_from([*STRUCTURES[:-2]]))
"""Those that can be signed as part of an event of an old room version."""


def written(value: Any) -> bytes:
    """Encode as JSON as far as possible."""
    return "".join(_written(value)).encode("utf-8", "surrogatepass")


def _written(value: Any) -> Iterator[str]:
    match value:
        case Raw(text):
            yield text
        case Twice(name, first, second):
            yield f"{{{json.dumps(name)}:"
            yield from _written(first)
            yield f",{json.dumps(name)}:"
            yield from _written(second)
            yield "}"
        case dict():
            for number, (name, one) in enumerate(value.items()):
                yield f"{',' if number else '{'}{json.dumps(name)}:"
                yield from _written(one)
            yield "}" if value else "{}"
        case list() | tuple():
            for number, one in enumerate(value):
                yield "," if number else "["
                yield from _written(one)
            yield "]" if value else "[]"
        case _:
            yield json.dumps(value)


@dataclass(frozen=True)
class Mutation:
    """A position in any value and a replacement for it. `way` selects the branch at each level."""

    way: tuple[int, ...]
    how: Literal["replace", "remove", "add"]
    name: str
    new: Any

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The form that Hypothesis prints; some values are very long."""
        printer.text(f"Mutation({self.way}, {self.how!r}, {self.name[:50]!r}, {self.new!r:.300})")


def mutations(new: st.SearchStrategy[Any] = values, most: int = 2) -> st.SearchStrategy[list[Mutation]]:
    ways = st.lists(st.integers(0, 30), max_size=8).map(tuple)
    how = st.sampled_from(["replace"] * 6 + ["remove", "add"])
    return st.lists(st.builds(Mutation, ways, how, texts, new), min_size=1, max_size=most)


def mutated(value: Any, struck_by: Iterable[Mutation]) -> Any:
    """Return the value with malicious values at some positions, at any depth."""
    for mutation in struck_by:
        value = _struck(value, mutation.way, mutation)
    return value


def _struck(value: Any, way: Sequence[int], mutation: Mutation) -> Any:
    if way and isinstance(value, list) and value:
        at = way[0] % len(value)
        return [*value[:at], _struck(value[at], way[1:], mutation), *value[at + 1 :]]
    if way and isinstance(value, Mapping) and value:
        name = sorted(value)[way[0] % len(value)]
        if len(way) > 1 or mutation.how == "replace":
            return {**value, name: _struck(value[name], way[1:], mutation)}
        kept = {key: one for key, one in value.items() if mutation.how == "add" or key != name}
        return kept if mutation.how == "remove" else {**kept, mutation.name: mutation.new}
    return mutation.new


def everywhere(value: Any, new: Sequence[Any]) -> Iterator[Any]:
    """Return the value with each replacement at each position, and without each position."""
    yield from new
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield {key: kept for key, kept in value.items() if key != name}
            yield from ({**value, name: changed} for changed in everywhere(one, new))
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from ([*value[:at], changed, *value[at + 1 :]] for changed in everywhere(one, new))


# -- heads --

METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "get")
QUERY_NAMES = (
    "access_token", "dir", "event_id", "field", "from", "height", "include_all_networks", "limit", "method",
    "minimum_valid_until_ts", "omit_members", "room_alias", "since", "suggested_only",
    "third_party_instance_id", "timeout_ms", "ts", "user_id", "v", "ver", "width",
)  # fmt: skip
SEGMENTS = (
    "%00", "a%00b", "%2F", "%2e%2e", "..", ".", "%", "%zz", "%ED%A0%80", "%FF%FE", "%C0%AF", "%F0%9F%98%80",
    "é", "%7B%7D", "{room_id}", ";", "a;b=c", "+", "%20", "%0D%0AX:%20y", "*", "$", "!",
    quote(f"${_noise(3_000)}"), quote(f"!{_noise(240)}:good.test"), "x" * 9_000,
)  # fmt: skip
segments = st.one_of(st.sampled_from(SEGMENTS), texts.map(lambda text: quote(text[:4_000], safe="")))
queries = st.lists(
    st.tuples(
        st.sampled_from(QUERY_NAMES),
        st.one_of(segments, st.sampled_from(["-1", "0", "1e9", "1000000000", "9" * 30, "NaN", "", "true"])),
    ),
    max_size=4,
).map(lambda pairs: "&".join(f"{name}={value}" for name, value in pairs))
