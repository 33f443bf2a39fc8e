"""A complete node in its own process, whose users are controlled by tests."""

from tests.support.driven_node.process import DrivenNode, Gone
from tests.support.driven_node.resident import Resident

__all__ = ["DrivenNode", "Gone", "Resident"]
