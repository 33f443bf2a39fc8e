"""SRV records, and the order in which their targets are tried. RFC 2782."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log
from typing import Final

MAX_RECORDS: Final = 32
"""Records of one response that are used. No honest domain has this many."""

# "Records with weight 0 should have a very small chance of being selected": far below a weight of 1.
_WEIGHT_OF_ZERO: Final = 1e-3


@dataclass(frozen=True, slots=True)
class SrvRecord:
    """A server that offers the service. `target` is a DNS name, with or without its final dot."""

    priority: int
    weight: int
    port: int
    target: str


def is_refusal(records: Iterable[SrvRecord]) -> bool:
    """ "A Target of "." means that the service is decidedly not available at this domain." """
    found = list(records)
    return bool(found) and all(record.target in {".", ""} for record in found)


def in_order(records: Sequence[SrvRecord], draws: Sequence[float]) -> list[SrvRecord]:
    """Sort records by priority, and randomly within a priority, in proportion to the weights.

    `draws` are random numbers between 0 and 1, one for each record. Sorting by log(draw) / weight gives every
    order the probability that RFC 2782's repeated selection gives it.
    """
    used = records[:MAX_RECORDS]
    assert len(draws) >= len(used), "every record needs a draw"

    def rank(index: int) -> tuple[int, float]:
        record = used[index]
        # A draw of exactly 0 has no logarithm.
        return record.priority, -log(draws[index] or 1e-300) / (record.weight or _WEIGHT_OF_ZERO)

    return [used[index] for index in sorted(range(len(used)), key=rank)]
