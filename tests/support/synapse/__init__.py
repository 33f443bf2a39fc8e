"""A real Synapse as a process: the peer that a node under test has to convince."""

from tests.support.synapse.process import DidNotStart, Synapse
from tests.support.synapse.requests_made import RequestMade

__all__ = ["DidNotStart", "RequestMade", "Synapse"]
