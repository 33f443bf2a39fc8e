"""How the centre reads what happens in rooms: `matrix_side.MatrixSide.subscription` gives one of these."""

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, TypeAlias

from federation.room_event import StreamedEvent

Connection: TypeAlias = Any
"""A connection of `storage.database` with a transaction that the caller commits. A module outside the shells
may not import its type."""

Place: TypeAlias = tuple[str, int, int]
"""Of a reader, as `storage.consumers` has it."""


class Subscription(Protocol):
    """Everything that happens in the rooms of this node's users, in one order, from a cursor on that is kept
    in the database under the reader's name.

    Of all processes on the database one at a time reads under a name. Of a room that this node has just
    joined the stream begins with the join; its state is to be read.
    """

    def next(self, limit: int = 100) -> Awaitable[Sequence[StreamedEvent]]:
        """What follows the cursor, with redactions applied; waits until there is something. Nothing has been
        read before `advance` says so. Raises `storage.consumers.TakenOver` when another process reads."""
        ...

    def advance(self, connection: Connection, position: int) -> Awaitable[None]:
        """Everything up to here is done. Called in the transaction that commits what was made of it, so that
        both are kept or neither. Raises `TakenOver` too."""
        ...

    def place(self, position: int) -> Place:
        """For a statement of one's own that does what `advance` does, together with what was made of
        everything up to here, and is a transaction by itself. `came_to` follows it, if it has done so."""
        ...

    def came_to(self, position: int) -> None: ...
