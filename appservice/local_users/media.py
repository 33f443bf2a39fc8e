"""Media, which the homeserver keeps: what is known of it is what a node that keeps it itself would know."""

import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from tempfile import SpooledTemporaryFile
from typing import IO, Final

from appservice.local_users.parts import HasParts
from federation.matrix.errors import MatrixError
from federation.media import media as media_errors
from federation.media.file_name import safe_file_name
from federation.media.media import MIB, MediaInfo, MediaSettings, OpenMedia, parse_mxc
from federation.media.media_type import effective_type
from storage.concurrency import uninterrupted

MOST_BYTES: Final = MediaSettings().max_upload_size
"""Of one piece of media. The homeserver may take less."""
CHUNK: Final = 256 * 1024
_HEAD: Final = 4096
"""By these the kind of a picture shows."""


class _Read:
    """What is found out of bytes while they pass."""

    def __init__(self, chunks: AsyncIterable[bytes]) -> None:
        self._chunks = chunks
        self._sha256 = hashlib.sha256()
        self.size = 0
        self.head = b""

    async def pieces(self) -> AsyncIterator[bytes]:
        async for chunk in self._chunks:
            self._sha256.update(chunk)
            self.size += len(chunk)
            if len(self.head) < _HEAD:
                self.head = (self.head + chunk)[:_HEAD]
            yield chunk

    @property
    def sha256(self) -> str:
        return self._sha256.hexdigest()


class MediaRepository(HasParts):
    async def upload(
        self,
        user: str,
        content: bytes | AsyncIterable[bytes],
        content_type: str | None = None,
        file_name: str | None = None,
    ) -> MediaInfo:
        self._refuse_strangers(user)
        name = safe_file_name(file_name)
        with SpooledTemporaryFile(max_size=MIB) as file:
            read = _Read(_once(content) if isinstance(content, bytes) else content)
            await _take_in(file, read, media_errors.upload_too_large)
            # Called what it is, and not what somebody says: the homeserver serves it as that.
            kind = effective_type(content_type, read.head)
            address = await self._parts.client.upload(user, _chunks(file), kind, name, limit=MOST_BYTES)
        mxc = parse_mxc(address)
        assert mxc is not None, "the client has looked at it"
        return MediaInfo(mxc, read.sha256, read.size, kind, name, user, self._parts.now_ms())

    @asynccontextmanager
    async def download(self, mxc: str) -> AsyncIterator[OpenMedia]:
        """It is here whole before anybody is told what it is."""
        address = parse_mxc(mxc)
        if address is None:
            raise media_errors.invalid_mxc_uri()
        with SpooledTemporaryFile(max_size=MIB) as file:
            async with self._parts.client.download(mxc, limit=MOST_BYTES) as found:
                read = _Read(found.chunks)
                await _take_in(file, read, media_errors.remote_too_large)
                kind, name = effective_type(found.content_type, read.head), safe_file_name(found.file_name)
            info = MediaInfo(address, read.sha256, read.size, kind, name, None, self._parts.now_ms())
            yield OpenMedia(info, _chunks(file))


async def _take_in(file: IO[bytes], read: _Read, too_large: Callable[[int], MatrixError]) -> None:
    async for piece in read.pieces():
        if read.size > MOST_BYTES:
            raise too_large(MOST_BYTES)
        await uninterrupted(file.write, piece)
    await uninterrupted(file.seek, 0)


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    while data := await uninterrupted(file.read, CHUNK):
        yield data


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content
