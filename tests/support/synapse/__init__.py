"""A real Synapse as a process, as a peer for the node under test."""

from tests.support.synapse.process import DidNotStart, Synapse
from tests.support.synapse.requests_made import RequestMade

__all__ = ["DidNotStart", "RequestMade", "Synapse"]
