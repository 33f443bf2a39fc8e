"""A whole node as a process of its own, which tests tell what its users do."""

from tests.support.driven_node.process import DrivenNode, Gone
from tests.support.driven_node.resident import Resident

__all__ = ["DrivenNode", "Gone", "Resident"]
