"""How a configured peer speaks."""

from enum import StrEnum


class PeerProfile(StrEnum):
    """The values are what is written in the configuration."""

    MATRIX = "matrix"
    """Palaver, and whoever else takes the specification at its word: events in rooms, contents flat."""
    CIS_1_1 = "cis-1.1"
    """The published nodes: single events over HTTP, contents nested."""
