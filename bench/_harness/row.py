"""The definition of a benchmark: sides, rows of two sides, sections of rows."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from bench._harness.measurement import Measurement
from bench._harness.plan import FULL, QUICK, Plan

S = TypeVar("S")

# Given the section's subject and a time to fill, measure for about that many seconds. What it does before and
# after its own clock runs (a table emptied, a document loaded) is not in the figure. Plain or async.
Sample = Callable[[S, float], Measurement | Awaitable[Measurement]]


class Unit(Enum):
    """The unit of a figure, which also decides which of two figures is better."""

    PER_SECOND = "per second"
    SECONDS = "s"
    MILLISECONDS = "ms"
    MEBIBYTES = "MiB"
    BYTES = "bytes"
    CALLS = "calls"
    ROWS = "rows"

    def ratio(self, ours: float, other: float) -> float:
        """Return how many times better the first figure is; above 1 is better for Palaver, in every unit."""
        return ours / other if self is Unit.PER_SECOND else other / ours


@dataclass(frozen=True, slots=True)
class Side(Generic[S]):
    """One of two compared things; `name` is used in the table and in the last line."""

    name: str
    sample: Sample[S]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Generic[S]):
    """One line of the table. Without `other` it is a ceiling: a figure that is compared with nothing.

    `counts` says whether the ratio may become the benchmark's. It is true where Palaver had the choice
    between both sides; elsewhere the ratio only informs.
    """

    name: str
    what: str
    unit: Unit = Unit.PER_SECOND
    ours: Side[S]
    other: Side[S] | None = None
    counts: bool = True

    @property
    def sides(self) -> tuple[Side[S], ...]:
        """The sides in the order in which every round measures them."""
        return (self.ours,) if self.other is None else (self.ours, self.other)


def no_remarks(subject: object) -> Sequence[str]:
    """The default: a section without remarks."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Section(Generic[S]):
    """Rows that share a subject: the servers, keys or documents which `setup` makes and ends.

    It is entered only when one of its rows is selected. `remarks` are facts about the subject without which
    its figures cannot be read, such as the version of a server; they stand under the table, and are asked for
    when its rows have been measured.
    """

    rows: Sequence[Row[S]]
    setup: Callable[[], AbstractContextManager[S] | AbstractAsyncContextManager[S]]
    remarks: Callable[[S], Sequence[str]] = no_remarks


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Everything that one `python -m bench.NAME` measures.

    `headline` is the row whose ratio the last line gives; without one it is the worst of all that count.
    `packages` are the distributions whose versions belong to the figures. `full` and `quick` are how much it
    measures by default.
    """

    name: str
    sections: Sequence[Section[Any]]
    packages: Sequence[str] = ()
    headline: str | None = None
    full: Plan = FULL
    quick: Plan = QUICK

    def __post_init__(self) -> None:
        names = self.row_names
        assert len(set(names)) == len(names), f"two rows of {self.name} have one name: {names}"
        assert self.headline is None or self.headline in names, f"there is no row {self.headline!r} to head {self.name}"

    @property
    def row_names(self) -> tuple[str, ...]:
        """The names from which `--rows` selects, in the table's order."""
        return tuple(row.name for section in self.sections for row in section.rows)
