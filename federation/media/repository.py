"""The content repository: uploads, downloads and thumbnails, for local users and for other servers."""

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from io import FileIO
from typing import Final

import structlog

from federation.media import media as media_errors
from federation.media.fetcher import MediaFetcher
from federation.media.media import MediaInfo, MediaSettings, Mxc, OpenMedia, parse_mxc
from federation.media.media_type import UNKNOWN, image_type
from federation.media.store import MediaStore, receive_media
from federation.media.thumbnail_size import Method, ThumbnailSize, choose_size
from federation.media.thumbnailer import Thumbnailer
from storage.concurrency import SingleFlight, uninterrupted
from storage.errors import LocalError
from storage.media.files import DiskFull

log = structlog.get_logger("palaver.media")

CHUNK: Final = 256 * 1024
# Seconds between two prunings when little is downloaded.
PRUNE_INTERVAL: Final = 3600.0
# "homeservers are recommended to use at least 128 bits": 24 bytes are 192, in 32 characters.
_ID_BYTES: Final = 24


class MediaRepository:
    """The content repository. Without a `fetcher` no media of other servers is downloaded. Call `close` at
    the end."""

    def __init__(
        self,
        server_name: str,
        store: MediaStore,
        fetcher: MediaFetcher | None,
        settings: MediaSettings,
        thumbnailer: Thumbnailer | None = None,
    ) -> None:
        self._server_name = server_name
        self._store = store
        self._fetcher = fetcher
        self._settings = settings
        self._thumbnailer = thumbnailer or Thumbnailer(
            max_pixels=settings.max_image_pixels, time_limit=settings.thumbnail_timeout
        )
        self._fetches: SingleFlight[Mxc, MediaInfo] = SingleFlight()
        self._thumbnails: SingleFlight[tuple[str, str], None] = SingleFlight()
        self._fetched = 0
        self._prune_now = asyncio.Event()

    async def start(self) -> None:
        """Prepare the directory. Raises `LocalError` if it cannot be used."""
        try:
            await uninterrupted(self._store.files.prepare)
        except OSError as error:
            raise LocalError(
                f"The media directory {self._store.files.directory} cannot be used: {error.strerror}.",
                "Make the user who runs the node its owner, and check the free space of its disk.",
            ) from error

    async def close(self) -> None:
        """Cancel running downloads and thumbnails."""
        await self._fetches.close()
        await self._thumbnails.close()

    async def upload(
        self,
        user: str,
        content: bytes | AsyncIterable[bytes],
        content_type: str | None = None,
        file_name: str | None = None,
    ) -> MediaInfo:
        """Store media permanently. Its mxc URI (`info.mxc`) is valid when this returns.

        Raises `MatrixError` if it is too large or the disk is full.
        """
        settings = self._settings
        with _map_disk_full():
            async with receive_media(
                self._store.files, settings.max_upload_size, media_errors.upload_too_large
            ) as receiver:
                if isinstance(content, bytes):
                    await receiver.write(content)
                else:
                    async for chunk in content:
                        await receiver.write(chunk)
                mxc = Mxc(self._server_name, secrets.token_urlsafe(_ID_BYTES))
                return await self._store.save(receiver, mxc, content_type, file_name, user)

    @asynccontextmanager
    async def open(self, uri: str | Mxc) -> AsyncIterator[OpenMedia]:
        """Open media of this server or of another one, downloading it if needed.

        Raises `MatrixError` if it is not available, and `PeerError` if its server fails.
        """
        info, file = await self._find_or_fetch(_mxc(uri))
        with file:
            yield OpenMedia(info, _chunks(file))

    @asynccontextmanager
    async def open_local(self, media_id: str) -> AsyncIterator[OpenMedia]:
        """Open media of this server, for other servers. Nothing is downloaded."""
        async with self.open(Mxc(self._server_name, media_id)) as opened:
            yield opened

    async def thumbnail(self, uri: str | Mxc, width: int, height: int, method: Method) -> OpenMedia:
        """Return a thumbnail of at least this size, unless the original or the largest thumbnail is
        smaller. `info` describes the thumbnail."""
        return await self._thumbnail(_mxc(uri), choose_size(width, height, method))

    async def local_thumbnail(self, media_id: str, size: ThumbnailSize) -> OpenMedia:
        """Return a thumbnail of media of this server, for other servers. Nothing is downloaded."""
        return await self._thumbnail(Mxc(self._server_name, media_id), size)

    async def _thumbnail(self, mxc: Mxc, size: ThumbnailSize) -> OpenMedia:
        info, original = await self._find_or_fetch(mxc)
        with original:
            data = await self._read_thumbnail(info, size)
            if data is None:
                await self._thumbnails.run((info.sha256, size.name), lambda: self._make_thumbnail(info, size))
                data = await self._read_thumbnail(info, size)
        if data is None:
            # Pruned while the thumbnail was created.
            raise media_errors.not_found()
        described = replace(
            info,
            sha256=hashlib.sha256(data).hexdigest(),
            size=len(data),
            content_type=image_type(data) or UNKNOWN,
            file_name=None,
        )
        return OpenMedia(described, _once(data))

    async def quarantine(self, uri: str | Mxc, *, quarantined: bool = True) -> bool:
        """Stop serving the media. Return False if it is not stored here."""
        return await self._store.quarantine(_mxc(uri), quarantined=quarantined)

    async def prune(self) -> int:
        """Delete media of other servers that is too old or exceeds the cache size; return how many."""
        settings = self._settings
        pruned = await self._store.prune(settings.remote_cache_size, settings.remote_cache_age)
        if pruned:
            log.info("Pruned media of other servers.", count=pruned)
        return pruned

    async def prune_forever(self) -> None:
        """Prune for ever: every `PRUNE_INTERVAL` seconds, and sooner when much has been downloaded.

        First delete files that a killed process has left.
        """
        is_cleared = False
        while True:
            self._prune_now.clear()
            self._fetched = 0
            try:
                if not is_cleared and (cleared := await self._store.delete_orphans()):
                    log.info("Deleted media files without a database row.", count=cleared)
                is_cleared = True
                await self.prune()
            except (LocalError, OSError) as error:
                # Retried the next time: only disk space depends on it.
                log.warning("Failed to prune media.", problem=str(error))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PRUNE_INTERVAL):
                    await self._prune_now.wait()

    async def _find_or_fetch(self, mxc: Mxc) -> tuple[MediaInfo, FileIO]:
        for may_fetch in (True, False):
            info = await self._store.find(mxc)
            file = None if info is None else self._store.open(info)
            if info is not None and file is not None:
                return info, file
            if mxc.server == self._server_name or self._fetcher is None or not may_fetch:
                break
            await self._fetches.run(mxc, lambda: self._fetch(mxc))
        raise media_errors.not_found()

    async def _fetch(self, mxc: Mxc) -> MediaInfo:
        assert self._fetcher is not None, "checked by the caller"
        with _map_disk_full():
            info = await self._fetcher.fetch(mxc)
        self._fetched += info.size
        if self._fetched > self._settings.remote_cache_size // 8:
            self._prune_now.set()
        return info

    async def _read_thumbnail(self, info: MediaInfo, size: ThumbnailSize) -> bytes | None:
        file = self._store.files.open_thumbnail(bytes.fromhex(info.sha256), size.name)
        if file is None:
            return None
        with file:
            return await uninterrupted(file.readall)

    async def _make_thumbnail(self, info: MediaInfo, size: ThumbnailSize) -> None:
        # Opened again: the first requester may be cancelled before the thumbnail is created.
        original = self._store.open(info)
        if original is None:
            return
        with original, _map_disk_full():
            await uninterrupted(self._store.files.check_free_space, 0)
            async with receive_media(self._store.files, 0, media_errors.upload_too_large) as receiver:
                await self._thumbnailer.make(info.sha256, original, size, receiver.file.handle())
                await self._store.save_thumbnail(receiver, info, size.name)


def _mxc(uri: str | Mxc) -> Mxc:
    mxc = parse_mxc(uri) if isinstance(uri, str) else uri
    if mxc is None:
        raise media_errors.invalid_mxc_uri()
    return mxc


@contextlib.contextmanager
def _map_disk_full() -> Iterator[None]:
    try:
        yield
    except DiskFull as error:
        log.error("Failed to store media.", problem=error.problem, advice=error.advice)
        raise media_errors.disk_full() from error


async def _chunks(file: FileIO) -> AsyncIterator[bytes]:
    while data := await uninterrupted(file.read, CHUNK):
        yield data


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
