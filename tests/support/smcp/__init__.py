"""Unmodified published clients of offices, each version in its own environment, as processes."""

from tests.support.smcp.environments import VERSIONS, NotInstalled
from tests.support.smcp.processes import Peers, PublishedAgent, PublishedComputer, ReferenceServer, Refused

__all__ = [
    "VERSIONS", "NotInstalled", "Peers", "PublishedAgent", "PublishedComputer", "ReferenceServer", "Refused",
]  # fmt: skip
