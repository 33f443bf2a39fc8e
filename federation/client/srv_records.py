"""SRV records, and in which order the servers that they name are tried. RFC 2782."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log
from typing import Final

MOST_RECORDS: Final = 32
"""How many records of one answer are looked at. Nobody has this many; somebody may pretend to."""

# "Records with weight 0 should have a very small chance of being selected": far below a weight of 1.
_WEIGHT_OF_ZERO: Final = 1e-3


@dataclass(frozen=True, slots=True)
class SrvRecord:
    """One server that offers the service. `target` is a name, with or without its final dot."""

    priority: int
    weight: int
    port: int
    target: str


def is_refusal(records: Iterable[SrvRecord]) -> bool:
    """ "A Target of "." means that the service is decidedly not available at this domain." """
    found = list(records)
    return bool(found) and all(record.target in {".", ""} for record in found)


def in_order(records: Sequence[SrvRecord], draws: Sequence[float]) -> list[SrvRecord]:
    """The lowest priority first; within one priority at random, in proportion to the weights.

    `draws` are random numbers between 0 and 1, one for each record. Sorting by log(draw) / weight gives every
    order the probability that RFC 2782's repeated selection gives it.
    """
    looked_at = records[:MOST_RECORDS]
    assert len(draws) >= len(looked_at), "every record needs a draw"

    def rank(at: int) -> tuple[int, float]:
        record = looked_at[at]
        # A draw of exactly 0 has no logarithm.
        return record.priority, -log(draws[at] or 1e-300) / (record.weight or _WEIGHT_OF_ZERO)

    return [looked_at[at] for at in sorted(range(len(looked_at)), key=rank)]
