"""Stores media: the bytes in files and the metadata in database rows.

Media is received in chunks into a temporary file, which gets its name when it is complete.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from io import FileIO
from typing import Final

import structlog

from federation.matrix.errors import MatrixError
from federation.media import media as media_errors
from federation.media.file_name import safe_file_name
from federation.media.media import MediaInfo, Mxc
from federation.media.media_type import believed_type
from storage.concurrency import uninterrupted
from storage.database import Connection, Database
from storage.media import media as rows
from storage.media.files import MediaFiles, PendingFile
from storage.media.media import EvictableMedia, MediaRow

# Chunks are collected up to this size: a thread costs more than writing a small chunk.
_PIECE: Final = 256 * 1024


class MediaIntake:
    """Receives media into a temporary file. `too_large` makes the error for more than `limit` bytes."""

    def __init__(self, incoming: PendingFile, limit: int, too_large: Callable[[int], MatrixError]) -> None:
        self.incoming = incoming
        self._limit = limit
        self._too_large = too_large
        self._waiting = bytearray()

    def expect(self, size: int | None) -> None:
        """Raise if the announced size is too large."""
        if size is not None and size > self._limit:
            raise self._too_large(self._limit)

    async def take(self, data: bytes) -> None:
        self.expect(self.incoming.size + len(self._waiting) + len(data))
        self._waiting += data
        if len(self._waiting) >= _PIECE:
            await self._write()

    async def complete(self) -> None:
        """Write the rest and flush the file to the disk."""
        await self._write()
        await uninterrupted(self.incoming.flush)

    async def _write(self) -> None:
        data, self._waiting = bytes(self._waiting), bytearray()
        await uninterrupted(self.incoming.write, data)


@asynccontextmanager
async def taking_in(
    files: MediaFiles, limit: int, too_large: Callable[[int], MatrixError]
) -> AsyncIterator[MediaIntake]:
    """Receive media. The file is deleted at the end unless it was stored."""
    incoming = files.begin()
    try:
        yield MediaIntake(incoming, limit, too_large)
    finally:
        await uninterrupted(incoming.discard)


log = structlog.get_logger("palaver.media")

# The minimum interval between two updates of the time of last use, in milliseconds.
TOUCHED_EVERY: Final = 3600 * 1000
# Downloaded media is not pruned for so many milliseconds.
GRACE: Final = 60 * 1000
_PRUNED_AT_ONCE: Final = 100


class MediaStore:
    """The file is written first, then the row, then the caller gets the result. A crash in between leaves
    a file without a row, never a row without its file."""

    def __init__(self, database: Database, files: MediaFiles, now_ms: Callable[[], int]) -> None:
        self.files = files
        self._database = database
        self._now_ms = now_ms

    async def keep(
        self,
        intake: MediaIntake,
        mxc: Mxc,
        declared_type: str | None,
        file_name: str | None,
        uploader: str | None,
    ) -> MediaInfo:
        """Store received media under its mxc URI. File and row are durable when this returns."""
        await intake.complete()
        incoming = intake.incoming
        row = MediaRow(
            origin=mxc.server,
            media_id=mxc.media_id,
            sha256=incoming.sha256,
            size=incoming.size,
            content_type=believed_type(declared_type, incoming.head),
            file_name=safe_file_name(file_name),
            uploader=uploader,
            created_at=self._now_ms(),
            last_used_at=self._now_ms(),
        )
        async with self._database.transaction() as connection:
            await rows.lock_bytes(connection, row.sha256)
            await uninterrupted(incoming.save)
            await rows.upsert(connection, row)
        return _info(row)

    async def find(self, mxc: Mxc) -> MediaInfo | None:
        """Return the metadata and update the time of last use. Raises `MatrixError` for quarantined
        media."""
        async with self._database.transaction(readonly=True) as connection:
            row = await rows.fetch(connection, mxc.server, mxc.media_id)
        if row is None:
            return None
        if row.quarantined:
            raise media_errors.not_found()
        now = self._now_ms()
        if row.last_used_at <= now - TOUCHED_EVERY:
            async with self._database.transaction() as connection:
                await rows.touch(connection, mxc.server, mxc.media_id, now)
        return _info(row)

    def open(self, info: MediaInfo) -> FileIO | None:
        """Open the bytes; None if they have been pruned meanwhile, or are missing."""
        file = self.files.open(bytes.fromhex(info.sha256))
        if file is None:
            log.warning("The file of stored media is missing.", mxc=str(info.mxc), sha256=info.sha256)
        return file

    async def keep_thumbnail(self, intake: MediaIntake, of: MediaInfo, name: str) -> bool:
        """Store a thumbnail unless the image has been pruned meanwhile. Return whether it was stored."""
        sha256 = bytes.fromhex(of.sha256)
        async with self._database.transaction() as connection:
            await rows.lock_bytes(connection, sha256)
            needed = await rows.is_referenced(connection, sha256)
            if needed:
                await uninterrupted(intake.incoming.save_thumbnail, sha256, name)
        return needed

    async def quarantine(self, mxc: Mxc, *, quarantined: bool = True) -> bool:
        """Stop serving these bytes, under any mxc URI. Return False if the media is not stored here."""
        async with self._database.transaction() as connection:
            row = await rows.fetch(connection, mxc.server, mxc.media_id)
            if row is not None:
                await rows.set_quarantined(connection, row.sha256, quarantined=quarantined)
        return row is not None

    async def prune(self, cache_size: int, cache_age_ms: int) -> int:
        """Delete media of other servers that is too old or exceeds the cache size; return how many URIs."""
        pruned = 0
        while True:
            async with self._database.transaction(readonly=True) as connection:
                surplus = await rows.fetch_evictable(
                    connection,
                    unused_since=self._now_ms() - cache_age_ms,
                    most_bytes=cache_size,
                    used_until=self._now_ms() - GRACE,
                    limit=_PRUNED_AT_ONCE,
                )
            for one in surplus:
                await self._forget(one)
            pruned += len(surplus)
            if len(surplus) < _PRUNED_AT_ONCE:
                return pruned

    async def _forget(self, surplus: EvictableMedia) -> None:
        """Delete the file before the row is committed: if the process is killed in between, the row has no
        file, and the media is downloaded again."""
        async with self._database.transaction() as connection:
            await rows.lock_bytes(connection, surplus.sha256)
            await rows.delete_remote(connection, surplus)
            await self._delete_unneeded(connection, surplus.sha256)

    async def clear_away(self) -> int:
        """Delete files without a row, which killed processes leave; return how many."""
        cleared = 0
        for section in await uninterrupted(self.files.sections):
            kept = await uninterrupted(self.files.list_hashes, section)
            async with self._database.transaction(readonly=True) as connection:
                unneeded = await rows.fetch_unreferenced(connection, kept)
            for sha256 in unneeded:
                async with self._database.transaction() as connection:
                    # A process that has just named the file holds this lock until the row is written.
                    await rows.lock_bytes(connection, sha256)
                    cleared += await self._delete_unneeded(connection, sha256)
        return cleared

    async def _delete_unneeded(self, connection: Connection, sha256: bytes) -> bool:
        """Delete the file if no row refers to it. The caller holds the lock on these bytes."""
        needed = await rows.is_referenced(connection, sha256)
        if not needed:
            await uninterrupted(self.files.delete, sha256)
        return not needed


def _info(row: MediaRow) -> MediaInfo:
    return MediaInfo(
        mxc=Mxc(row.origin, row.media_id),
        sha256=row.sha256.hex(),
        size=row.size,
        content_type=row.content_type,
        file_name=row.file_name,
        uploader=row.uploader,
        created_at=row.created_at,
    )
