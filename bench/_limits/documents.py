"""CRDT documents: adding an entry to ten thousand, and applying an update."""

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
    """A small map, like a message in a timeline."""
    return Map({"content_id": f"c{number:010}", "author": "@worker-1:kitchen.local", "status": "active"})


def documents() -> Documents:
    """Created once; every sample loads copies."""
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
    """A key as long as a ULID, like the ref ids of a timeline."""
    return f"{number:026}"


def set_in_map(subject: Documents, seconds: float) -> Measurement:
    """Set a new key in a map."""

    def prepare() -> Callable[[], object]:
        entries = loaded(subject.of_map).get("entries", type=Map[Any])
        numbers = count(ENTRIES)

        def add() -> None:
            number = next(numbers)
            entries[key(number)] = entry(number)

        return add

    return repeat_afresh(seconds, prepare)


def append_to_array(subject: Documents, seconds: float) -> Measurement:
    """Append the same entry to an array: pycrdt walks the list to find the end."""

    def prepare() -> Callable[[], object]:
        entries = loaded(subject.of_array).get("entries", type=Array[Any])
        numbers = count(ENTRIES)
        return lambda: entries.append(entry(next(numbers)))

    return repeat_afresh(seconds, prepare)


def apply_additions(subject: Documents, seconds: float) -> Measurement:
    """Apply additions one update at a time, as a peer does."""

    def prepare() -> Callable[[], object]:
        document = loaded(subject.of_map)
        additions = iter(subject.additions)
        return lambda: document.apply_update(next(additions))

    return repeat_afresh(seconds, prepare)


def loaded(update: bytes) -> Doc[Any]:
    """Return a document with this content."""
    document = Doc[Any]()
    document.apply_update(update)
    return document


def repeat_afresh(seconds: float, prepare: Callable[[], Callable[[], object]]) -> Measurement:
    """Repeat an operation that changes its subject, on new copies; copying is not timed."""
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
        Row(name="crdt-apply", what=f"apply one entry's update to {ENTRIES:,}", ours=Side("pycrdt", apply_additions)),
    ],
)
