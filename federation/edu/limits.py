"""How much one EDU may hold."""

from typing import Final

MAX_TO_DEVICE_BYTES: Final = 65_536
"""A to-device message that is larger than an event may be is refused: one that nobody can take in blocks the
queue of its sender for ever."""

MAX_PRESENCES: Final = 50
"""As many users as Synapse puts into one presence EDU, and as many as we read of one."""

MAX_RECEIPTS: Final = 1_000
"""More than anybody puts into one EDU; what is beyond is not read."""

MAX_STATUS_BYTES: Final = 1_024
MAX_MESSAGE_ID_BYTES: Final = 255
"""The specification says 32 code points. Nobody refuses longer ones."""

MAX_OWN_EDU_BYTES: Final = 8 * 1024 * 1024
"""Of an EDU that only servers of our kind know, and that need not arrive. With fifty events beside it it fits
into what they take in at once."""
