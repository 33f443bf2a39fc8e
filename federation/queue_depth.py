"""What waits to be sent."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waiting:
    """How much waits for a server, and for how long the oldest of it has."""

    destination: str
    pdus: int
    edus: int
    lag_ms: int
