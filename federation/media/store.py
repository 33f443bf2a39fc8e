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
from federation.media.media_type import effective_type
from storage.concurrency import uninterrupted
from storage.database import Connection, Database
from storage.media import media as rows
from storage.media.files import MediaFiles, PendingFile
from storage.media.media import EvictableMedia, MediaRow

# Chunks are collected up to this size: a thread costs more than writing a small chunk.
_PIECE: Final = 256 * 1024


class MediaReceiver:
    """Receives media into a temporary file. `too_large` makes the error for more than `limit` bytes."""

    def __init__(self, file: PendingFile, limit: int, too_large: Callable[[int], MatrixError]) -> None:
        self.file = file
        self._limit = limit
        self._too_large = too_large
        self._buffer = bytearray()

    def check_size(self, size: int | None) -> None:
        """Raise if the announced size is too large."""
        if size is not None and size > self._limit:
            raise self._too_large(self._limit)

    async def write(self, data: bytes) -> None:
        self.check_size(self.file.size + len(self._buffer) + len(data))
        self._buffer += data
        if len(self._buffer) >= _PIECE:
            await self._flush_buffer()

    async def complete(self) -> None:
        """Write the rest and flush the file to the disk."""
        await self._flush_buffer()
        await uninterrupted(self.file.flush)

    async def _flush_buffer(self) -> None:
        data, self._buffer = bytes(self._buffer), bytearray()
        await uninterrupted(self.file.write, data)


@asynccontextmanager
async def receive_media(
    files: MediaFiles, limit: int, too_large: Callable[[int], MatrixError]
) -> AsyncIterator[MediaReceiver]:
    """Receive media. The file is deleted at the end unless it was stored."""
    incoming = files.begin()
    try:
        yield MediaReceiver(incoming, limit, too_large)
    finally:
        await uninterrupted(incoming.discard)


log = structlog.get_logger("palaver.media")

# The minimum interval between two updates of the time of last use, in milliseconds.
TOUCH_INTERVAL_MS: Final = 3600 * 1000
# Downloaded media is not pruned for so many milliseconds.
MIN_AGE_MS: Final = 60 * 1000
_PRUNE_BATCH: Final = 100


class MediaStore:
    """The file is written first, then the row, then the caller gets the result. A crash in between leaves
    a file without a row, never a row without its file."""

    def __init__(self, database: Database, files: MediaFiles, now_ms: Callable[[], int]) -> None:
        self.files = files
        self._database = database
        self._now_ms = now_ms

    async def save(
        self, receiver: MediaReceiver, mxc: Mxc, declared_type: str | None, file_name: str | None, uploader: str | None
    ) -> MediaInfo:
        """Store received media under its mxc URI. File and row are durable when this returns."""
        await receiver.complete()
        incoming = receiver.file
        row = MediaRow(
            origin=mxc.server,
            media_id=mxc.media_id,
            sha256=incoming.sha256,
            size=incoming.size,
            content_type=effective_type(declared_type, incoming.head),
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
        if row.last_used_at <= now - TOUCH_INTERVAL_MS:
            async with self._database.transaction() as connection:
                await rows.touch(connection, mxc.server, mxc.media_id, now)
        return _info(row)

    def open(self, info: MediaInfo) -> FileIO | None:
        """Open the bytes; None if they have been pruned meanwhile, or are missing."""
        file = self.files.open(bytes.fromhex(info.sha256))
        if file is None:
            log.warning("The file of stored media is missing.", mxc=str(info.mxc), sha256=info.sha256)
        return file

    async def save_thumbnail(self, receiver: MediaReceiver, of: MediaInfo, name: str) -> bool:
        """Store a thumbnail unless the image has been pruned meanwhile. Return whether it was stored."""
        sha256 = bytes.fromhex(of.sha256)
        async with self._database.transaction() as connection:
            await rows.lock_bytes(connection, sha256)
            is_referenced = await rows.is_referenced(connection, sha256)
            if is_referenced:
                await uninterrupted(receiver.file.save_thumbnail, sha256, name)
        return is_referenced

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
                evicted = await rows.fetch_evictable(
                    connection,
                    unused_since=self._now_ms() - cache_age_ms,
                    most_bytes=cache_size,
                    used_until=self._now_ms() - MIN_AGE_MS,
                    limit=_PRUNE_BATCH,
                )
            for media in evicted:
                await self._evict(media)
            pruned += len(evicted)
            if len(evicted) < _PRUNE_BATCH:
                return pruned

    async def _evict(self, evicted: EvictableMedia) -> None:
        """Delete the file before the row is committed: if the process is killed in between, the row has no
        file, and the media is downloaded again."""
        async with self._database.transaction() as connection:
            await rows.lock_bytes(connection, evicted.sha256)
            await rows.delete_remote(connection, evicted)
            await self._delete_if_unreferenced(connection, evicted.sha256)

    async def delete_orphans(self) -> int:
        """Delete files without a row, which killed processes leave; return how many."""
        cleared = 0
        for section in await uninterrupted(self.files.sections):
            stored = await uninterrupted(self.files.list_hashes, section)
            async with self._database.transaction(readonly=True) as connection:
                orphans = await rows.fetch_unreferenced(connection, stored)
            for sha256 in orphans:
                async with self._database.transaction() as connection:
                    # A process that has just named the file holds this lock until the row is written.
                    await rows.lock_bytes(connection, sha256)
                    cleared += await self._delete_if_unreferenced(connection, sha256)
        return cleared

    async def _delete_if_unreferenced(self, connection: Connection, sha256: bytes) -> bool:
        """Delete the file if no row refers to it. The caller holds the lock on these bytes."""
        is_referenced = await rows.is_referenced(connection, sha256)
        if not is_referenced:
            await uninterrupted(self.files.delete, sha256)
        return not is_referenced


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
