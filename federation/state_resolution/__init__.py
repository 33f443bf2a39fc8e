"""State resolution: which state a room has where branches of its history meet."""

from federation.state_resolution.conflicts import StateSet
from federation.state_resolution.resolve import NeedEvents, Resolution, resolve

__all__ = ["NeedEvents", "Resolution", "StateSet", "resolve"]
