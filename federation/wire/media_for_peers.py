"""What the media endpoints share: whom they ask, how many they serve at once, and the answer of two parts."""

import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from aiohttp import hdrs, web

from federation import media_errors
from federation.media_headers import SAFETY, media_headers
from federation.multipart_mixed import framed
from federation.service.media import Media, OpenMedia
from federation.wire.middleware import PeerLeft

MOST_AT_ONCE: Final = 32
"""Answers under way to one server: each holds a file open and reads from the disk."""


class Asker(Protocol):
    """Who has signed a request."""

    @property
    def origin(self) -> str: ...


class Authenticator(Protocol):
    async def authenticate(self, request: web.BaseRequest, /) -> Asker:
        """Raises `MatrixError` for whoever cannot show who he is."""


class MediaForPeers:
    """Stands in the application under `MEDIA`."""

    def __init__(
        self, media: Media, authenticator: Authenticator, *, most_at_once: int = MOST_AT_ONCE
    ) -> None:
        self.media = media
        self.authenticator = authenticator
        self._most_at_once = most_at_once
        self._under_way: Counter[str] = Counter()

    @contextmanager
    def place(self, origin: str) -> Iterator[None]:
        """Raises `MatrixError` when that server has as many answers under way as it may."""
        if self._under_way[origin] >= self._most_at_once:
            raise media_errors.busy()
        self._under_way[origin] += 1
        try:
            yield
        finally:
            self._under_way[origin] -= 1
            if not self._under_way[origin]:
                del self._under_way[origin]


MEDIA = web.AppKey("MEDIA", MediaForPeers)


async def two_part_answer(request: web.Request, opened: OpenMedia) -> web.StreamResponse:
    """Server-server API: `multipart/mixed`, an empty object and the bytes, as they come from the disk."""
    info = opened.info
    boundary = secrets.token_hex(16)
    before, after = framed(boundary, media_headers(info.content_type, info.file_name))
    response = web.StreamResponse(
        headers={**SAFETY, hdrs.CONTENT_TYPE: f"multipart/mixed; boundary={boundary}"}
    )
    response.content_length = len(before) + info.size + len(after)
    try:
        await response.prepare(request)
        left = info.size
        # In one piece with what comes first: Synapse takes a header that arrives in two for two headers.
        waiting = before
        async for chunk in opened.chunks:
            left -= len(chunk)
            await response.write(waiting + chunk)
            waiting = b""
        if left != 0:
            raise OSError(f"The file of {info.mxc} has not the length that it should have.")
        await response.write(waiting + after)
        await response.write_eof()
    except ConnectionError as error:
        raise PeerLeft from error
    return response
