"""The content repository: uploads, downloads and thumbnails, for whoever is asked for media."""

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
from federation.media.store import MediaStore, taking_in
from federation.media.thumbnail_size import Method, ThumbnailSize, choose
from federation.media.thumbnailer import Thumbnailer
from storage.concurrency import SingleFlight, uninterrupted
from storage.errors import LocalError
from storage.media.files import DiskFull

log = structlog.get_logger("palaver.media")

CHUNK: Final = 256 * 1024
# Seconds between two prunings when little is fetched.
PRUNED_EVERY: Final = 3600.0
# "homeservers are recommended to use at least 128 bits": 24 bytes are 192, in 32 characters.
_ID_BYTES: Final = 24


class Media:
    """`fetcher` is None for a node that fetches nothing from others. Close it after the last use."""

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
            most_pixels=settings.max_image_pixels, time_limit=settings.thumbnail_timeout
        )
        self._fetches: SingleFlight[Mxc, MediaInfo] = SingleFlight()
        self._thumbnails: SingleFlight[tuple[str, str], None] = SingleFlight()
        self._fetched = 0
        self._much_fetched = asyncio.Event()

    async def start(self) -> None:
        """Raises `LocalError` when the directory cannot be used."""
        try:
            await uninterrupted(self._store.files.prepare)
        except OSError as error:
            raise LocalError(
                f"The directory for media, {self._store.files.directory}, can't be used: {error.strerror}.",
                "Let the user who runs the node own it, and look whether its disk has room.",
            ) from error

    async def close(self) -> None:
        """Give up what is under way."""
        await self._fetches.close()
        await self._thumbnails.close()

    async def upload(
        self,
        user: str,
        content: bytes | AsyncIterable[bytes],
        content_type: str | None = None,
        file_name: str | None = None,
    ) -> MediaInfo:
        """Keep it for good. Its address (`info.mxc`) is valid, here and everywhere, once this returns.

        Raises `MatrixError` when it is too large, or when there is no room.
        """
        settings = self._settings
        with _no_room_told():
            async with taking_in(
                self._store.files, settings.max_upload_size, media_errors.upload_too_large
            ) as intake:
                if isinstance(content, bytes):
                    await intake.take(content)
                else:
                    async for chunk in content:
                        await intake.take(chunk)
                mxc = Mxc(self._server_name, secrets.token_urlsafe(_ID_BYTES))
                return await self._store.keep(intake, mxc, content_type, file_name, user)

    @asynccontextmanager
    async def open(self, address: str | Mxc) -> AsyncIterator[OpenMedia]:
        """Media of this server, or of another one, fetched if need be.

        Raises `MatrixError` when there is none to be had, and `PeerError` when its server fails.
        """
        info, file = await self._reach(_mxc(address))
        with file:
            yield OpenMedia(info, _chunks(file))

    @asynccontextmanager
    async def open_local(self, media_id: str) -> AsyncIterator[OpenMedia]:
        """Media of this server, for other servers: whatever they ask, nothing is fetched."""
        async with self.open(Mxc(self._server_name, media_id)) as opened:
            yield opened

    async def thumbnail(self, address: str | Mxc, width: int, height: int, method: Method) -> OpenMedia:
        """A picture of about this size: at least as large, unless the original is smaller or there is none so
        large. `info` is that of the thumbnail.
        """
        return await self._thumbnail(_mxc(address), choose(width, height, method))

    async def local_thumbnail(self, media_id: str, size: ThumbnailSize) -> OpenMedia:
        """For other servers: nothing is fetched."""
        return await self._thumbnail(Mxc(self._server_name, media_id), size)

    async def _thumbnail(self, mxc: Mxc, size: ThumbnailSize) -> OpenMedia:
        info, original = await self._reach(mxc)
        with original:
            data = await self._read_thumbnail(info, size)
            if data is None:
                await self._thumbnails.run((info.sha256, size.name), lambda: self._make_thumbnail(info, size))
                data = await self._read_thumbnail(info, size)
        if data is None:
            # Pruned while it was made.
            raise media_errors.not_found()
        described = replace(
            info,
            sha256=hashlib.sha256(data).hexdigest(),
            size=len(data),
            content_type=image_type(data) or UNKNOWN,
            file_name=None,
        )
        return OpenMedia(described, _once(data))

    async def quarantine(self, address: str | Mxc, *, quarantined: bool = True) -> bool:
        """Give it to nobody any more; False when there is no such media here."""
        return await self._store.quarantine(_mxc(address), quarantined=quarantined)

    async def prune(self) -> int:
        """Forget what was fetched from others and is too old, or too much."""
        settings = self._settings
        pruned = await self._store.prune(settings.remote_cache_size, settings.remote_cache_age)
        if pruned:
            log.info("Media of other servers was pruned.", count=pruned)
        return pruned

    async def keep_pruned(self) -> None:
        """For ever: once in a while, and sooner when much has been fetched.

        First what a kill has left is cleared away.
        """
        is_cleared = False
        while True:
            self._much_fetched.clear()
            self._fetched = 0
            try:
                if not is_cleared and (cleared := await self._store.clear_away()):
                    log.info("Files of media that no row names were deleted.", count=cleared)
                is_cleared = True
                await self.prune()
            except (LocalError, OSError) as error:
                # The next time is soon enough: nothing depends on it but the room on the disk.
                log.warning("Media could not be pruned.", problem=str(error))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PRUNED_EVERY):
                    await self._much_fetched.wait()

    async def _reach(self, mxc: Mxc) -> tuple[MediaInfo, FileIO]:
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
        assert self._fetcher is not None, "looked at before"
        with _no_room_told():
            info = await self._fetcher.fetch(mxc)
        self._fetched += info.size
        if self._fetched > self._settings.remote_cache_size // 8:
            self._much_fetched.set()
        return info

    async def _read_thumbnail(self, info: MediaInfo, size: ThumbnailSize) -> bytes | None:
        file = self._store.files.open_thumbnail(bytes.fromhex(info.sha256), size.name)
        if file is None:
            return None
        with file:
            return await uninterrupted(file.readall)

    async def _make_thumbnail(self, info: MediaInfo, size: ThumbnailSize) -> None:
        # Opened once more: whoever asked first may be gone before it is made.
        original = self._store.open(info)
        if original is None:
            return
        with original, _no_room_told():
            await uninterrupted(self._store.files.check_free_space, 0)
            async with taking_in(self._store.files, 0, media_errors.upload_too_large) as intake:
                await self._thumbnailer.make(info.sha256, original, size, intake.incoming.handle())
                await self._store.keep_thumbnail(intake, info, size.name)


def _mxc(address: str | Mxc) -> Mxc:
    mxc = parse_mxc(address) if isinstance(address, str) else address
    if mxc is None:
        raise media_errors.no_address()
    return mxc


@contextlib.contextmanager
def _no_room_told() -> Iterator[None]:
    try:
        yield
    except DiskFull as error:
        log.error("Media could not be kept.", problem=error.problem, advice=error.advice)
        raise media_errors.no_room() from error


async def _chunks(file: FileIO) -> AsyncIterator[bytes]:
    while data := await uninterrupted(file.read, CHUNK):
        yield data


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
