"""A content repository on a database and a temporary directory."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from federation.media import media as media_errors
from federation.media.fetcher import MediaFetcher
from federation.media.media import MediaInfo, MediaSettings, Mxc, OpenMedia
from federation.media.repository import MediaRepository
from federation.media.store import MediaStore, receive_media
from federation.media.thumbnailer import Thumbnailer
from storage.database import Database
from storage.media.files import MediaFiles

US = "us.test"
ALICE = "@alice:us.test"
BEGINNING = 1_700_000_000_000


@dataclass
class Clock:
    """Milliseconds that the test advances."""

    now: int = BEGINNING

    def __call__(self) -> int:
        return self.now


@dataclass
class Repository:
    store: MediaStore
    files: MediaFiles
    times: Clock
    database: Database

    def media(
        self,
        fetcher: MediaFetcher | None = None,
        settings: MediaSettings | None = None,
        thumbnailer: Thumbnailer | None = None,
    ) -> MediaRepository:
        return MediaRepository(US, self.store, fetcher, settings or MediaSettings(), thumbnailer)

    def directories_with_files(self) -> Sequence[str]:
        """Return the directories that contain a file."""
        return sorted(
            path.relative_to(self.files.directory).parts[0]
            for path in self.files.directory.rglob("*")
            if path.is_file()
        )

    async def keep(self, mxc: Mxc, data: bytes, uploader: str | None = None) -> MediaInfo:
        async with receive_media(self.files, 1 << 30, media_errors.upload_too_large) as intake:
            await intake.write(data)
            return await self.store.save(intake, mxc, "text/plain", "a.txt", uploader)


def repository(database: Database, directory: Path, *, reserve: int = 0) -> Repository:
    files = MediaFiles(directory / "media", reserve=reserve)
    files.prepare()
    times = Clock()
    return Repository(MediaStore(database, files, times), files, times, database)


async def read(opened: OpenMedia) -> bytes:
    return b"".join([chunk async for chunk in opened.chunks])


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
