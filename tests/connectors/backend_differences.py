"""The differences between an attached node and a node that is a homeserver: each is asserted.
docs/decisions/0139-differences-of-an-attached-node.md gives the reason for each."""

from enum import StrEnum


class Difference(StrEnum):
    """What a backend with this difference does."""

    DEVICES = "a message to devices reaches those that the homeserver knows of, each for itself"
    READ_IN_NO_THREAD = "people are not said to have read in a thread"
    NAMED_AT_BIRTH = "a user is called by the localpart until it is given another name"
