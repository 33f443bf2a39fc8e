"""The type of functions that report problems to the node's log."""

from collections.abc import Callable
from typing import TypeAlias

Report: TypeAlias = Callable[[str, BaseException | None], None]
"""Receives a sentence for the operator and the error behind it."""
