"""Media in the homeserver's media repository, with the metadata that a node with its own repository would
provide."""

import hashlib
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from tempfile import SpooledTemporaryFile
from typing import IO, Final

from appservice.local_users.parts import UserOperations
from federation.matrix.errors import MatrixError
from federation.media import media as media_errors
from federation.media.file_name import safe_file_name
from federation.media.media import MIB, MediaInfo, MediaSettings, OpenMedia, parse_mxc
from federation.media.media_type import effective_type
from storage.concurrency import uninterrupted

MAX_BYTES: Final = MediaSettings().max_upload_size
"""Maximum size of an upload or download. The homeserver's own limit may be lower."""
CHUNK: Final = 256 * 1024
_HEAD: Final = 4096
"""Bytes that are enough to recognise the type of an image."""


class _MeteredStream:
    """Computes hash, size and head of a stream while it is read."""

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


class MediaRepository(UserOperations):
    async def upload(
        self,
        user: str,
        content: bytes | AsyncIterable[bytes],
        content_type: str | None = None,
        file_name: str | None = None,
    ) -> MediaInfo:
        self._require_ghost(user)
        name = safe_file_name(file_name)
        with SpooledTemporaryFile(max_size=MIB) as file:
            metered = _MeteredStream(_single_chunk(content) if isinstance(content, bytes) else content)
            await _spool(file, metered, media_errors.upload_too_large)
            # The detected type, not the claimed one: the homeserver serves it with this content type.
            kind = effective_type(content_type, metered.head)
            address = await self._parts.client.upload(user, _chunks(file), kind, name, limit=MAX_BYTES)
        mxc = parse_mxc(address)
        assert mxc is not None, "checked by the client"
        return MediaInfo(mxc, metered.sha256, metered.size, kind, name, user, self._parts.now_ms())

    @asynccontextmanager
    async def download(self, mxc: str) -> AsyncIterator[OpenMedia]:
        """The whole content is downloaded before its metadata is returned."""
        address = parse_mxc(mxc)
        if address is None:
            raise media_errors.invalid_mxc_uri()
        with SpooledTemporaryFile(max_size=MIB) as file:
            async with self._parts.client.download(mxc, limit=MAX_BYTES) as found:
                metered = _MeteredStream(found.chunks)
                await _spool(file, metered, media_errors.remote_too_large)
                kind, name = effective_type(found.content_type, metered.head), safe_file_name(found.file_name)
            info = MediaInfo(address, metered.sha256, metered.size, kind, name, None, self._parts.now_ms())
            yield OpenMedia(info, _chunks(file))


async def _spool(file: IO[bytes], metered: _MeteredStream, too_large: Callable[[int], MatrixError]) -> None:
    async for piece in metered.pieces():
        if metered.size > MAX_BYTES:
            raise too_large(MAX_BYTES)
        await uninterrupted(file.write, piece)
    await uninterrupted(file.seek, 0)


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    while data := await uninterrupted(file.read, CHUNK):
        yield data


async def _single_chunk(content: bytes) -> AsyncIterator[bytes]:
    yield content
