"""In what a guest of a homeserver differs from a node that is one: each is asserted, none is passed over.

DECISIONS 139 has the reason of each.
"""

from enum import StrEnum


class Difference(StrEnum):
    """What is true of a side that has it."""
