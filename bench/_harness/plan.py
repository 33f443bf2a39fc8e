"""How much is measured."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """The number of rounds per row, and the duration of a sample."""

    rounds: int
    seconds: float


# Many short rounds: a disturbance that lasts a second then falls on both sides of the same rounds.
FULL = Plan(rounds=21, seconds=0.2)
QUICK = Plan(rounds=3, seconds=0.02)
