"""CRDT documents: an entry added to ten thousand, and an update taken in."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import count
from time import perf_counter
from typing import Any

from pycrdt import Array, Doc, Map

from bench._harness.measurement import Measurement, rate
from bench._harness.row import Row, Section, Side

ENTRIES = 10_000
# So many are added before a fresh document is loaded, so that "ten thousand already there" stays true.
_ADDED = 1_000

_Root = Map[Any] | Array[Any]


@dataclass(frozen=True, slots=True)
class Documents:
    """A map and an array of ten thousand entries each, and single additions to the map, all as updates."""

    of_map: bytes
    of_array: bytes
    additions: list[bytes]


def entry(number: int) -> Map[str]:
    """What stands for one message in a timeline: a small map."""
    return Map({"content_id": f"c{number:010}", "author": "@worker-1:kitchen.local", "status": "active"})


def documents() -> Documents:
    """Made once; every sample loads copies."""
    of_map, of_array = Doc[Any](), Doc[Any]()
    of_map["entries"] = Map({key(number): entry(number) for number in range(ENTRIES)})
    of_array["entries"] = Array([entry(number) for number in range(ENTRIES)])
    before = of_map.get_update()
    additions: list[bytes] = []
    entries = of_map.get("entries", type=Map[Any])
    for number in range(ENTRIES, ENTRIES + _ADDED):
        state = of_map.get_state()
        entries[key(number)] = entry(number)
        additions.append(of_map.get_update(state))
    return Documents(before, of_array.get_update(), additions)


def key(number: int) -> str:
    """Like the ref ids of a timeline: as long as a ULID."""
    return f"{number:026}"


def set_in_map(subject: Documents, seconds: float) -> Measurement:
    """A new key in a map."""

    def prepare() -> Callable[[], object]:
        entries = loaded(subject.of_map).get("entries", type=Map[Any])
        numbers = count(ENTRIES)

        def add() -> None:
            number = next(numbers)
            entries[key(number)] = entry(number)

        return add

    return repeat_afresh(seconds, prepare)


def append_to_array(subject: Documents, seconds: float) -> Measurement:
    """The same entry at the end of an array: pycrdt walks the list to find it."""

    def prepare() -> Callable[[], object]:
        entries = loaded(subject.of_array).get("entries", type=Array[Any])
        numbers = count(ENTRIES)
        return lambda: entries.append(entry(next(numbers)))

    return repeat_afresh(seconds, prepare)


def apply_additions(subject: Documents, seconds: float) -> Measurement:
    """What a peer does with each addition that reaches it, one update at a time."""

    def prepare() -> Callable[[], object]:
        document = loaded(subject.of_map)
        additions = iter(subject.additions)
        return lambda: document.apply_update(next(additions))

    return repeat_afresh(seconds, prepare)


def loaded(update: bytes) -> Doc[Any]:
    """A document with this content."""
    document = Doc[Any]()
    document.apply_update(update)
    return document


def repeat_afresh(seconds: float, prepare: Callable[[], Callable[[], object]]) -> Measurement:
    """Repeat an operation that changes what it works on, on fresh copies; making those is not timed."""
    operations, spent = 0, 0.0
    while spent < seconds:
        operation = prepare()
        began = perf_counter()
        for _ in range(_ADDED):
            operation()
        spent += perf_counter() - began
        operations += _ADDED
    return rate(operations, spent)


SECTION = Section(
    setup=lambda: nullcontext(documents()),
    rows=[
        Row(
            name="crdt-add",
            what=f"add an entry to {ENTRIES:,}, pycrdt",
            ours=Side("Map key", set_in_map),
            other=Side("Array.append", append_to_array),
            # The timeline of ezagent is an array by its specification: the row shows the price, not a choice.
            counts=False,
        ),
        Row(
            name="crdt-apply",
            what=f"apply one entry's update to {ENTRIES:,}",
            ours=Side("pycrdt", apply_additions),
        ),
    ],
)
