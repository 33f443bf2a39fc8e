"""How parts of the bridge report problems to the log of the node."""

from collections.abc import Callable
from typing import TypeAlias

Report: TypeAlias = Callable[[str, BaseException | None], None]
"""A sentence for the operator, and the error that it is about."""
