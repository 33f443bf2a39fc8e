"""Takes media in, piece by piece, into a file that has no name yet."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from federation.errors import MatrixError
from federation.service.uninterrupted import uninterrupted
from storage.media_files import Incoming, MediaFiles

# Written at once: a thread costs more than a small piece.
_PIECE: Final = 256 * 1024


class MediaIntake:
    """`too_large` makes the refusal of whatever is more than `limit` bytes."""

    def __init__(self, incoming: Incoming, limit: int, too_large: Callable[[int], MatrixError]) -> None:
        self.incoming = incoming
        self._limit = limit
        self._too_large = too_large
        self._waiting = bytearray()

    def expect(self, size: int | None) -> None:
        """Refuse early what says that it will be too large."""
        if size is not None and size > self._limit:
            raise self._too_large(self._limit)

    async def take(self, data: bytes) -> None:
        self.expect(self.incoming.size + len(self._waiting) + len(data))
        self._waiting += data
        if len(self._waiting) >= _PIECE:
            await self._write()

    async def complete(self) -> None:
        """All is here: put it down to the disk."""
        await self._write()
        await uninterrupted(self.incoming.flush)

    async def _write(self) -> None:
        data, self._waiting = bytes(self._waiting), bytearray()
        await uninterrupted(self.incoming.write, data)


@asynccontextmanager
async def taking_in(
    files: MediaFiles, limit: int, too_large: Callable[[int], MatrixError]
) -> AsyncIterator[MediaIntake]:
    """What is not kept before the end is gone."""
    incoming = files.begin()
    try:
        yield MediaIntake(incoming, limit, too_large)
    finally:
        await uninterrupted(incoming.discard)
