"""Media: its name, and what is known of it. Client-server API, "Content Repository"."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Protocol

from federation.identifiers import is_server_name

SCHEME: Final = "mxc://"
# "MUST only contain the characters A-Z, a-z, 0-9, _ and -." The length is ours, as for all other ids.
_MEDIA_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,255}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Mxc:
    """`mxc://server/media_id`. Neither part may ever become part of a path on the disk."""

    server: str
    media_id: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.server}/{self.media_id}"


@dataclass(frozen=True, slots=True)
class MediaInfo:
    """What is known of media that is kept here.

    `sha256` is of the bytes, in hexadecimal. `content_type` is what they may be served as, which is not
    always what somebody called them. `uploader` is None for media of other servers.
    """

    mxc: Mxc
    sha256: str
    size: int
    content_type: str
    file_name: str | None
    uploader: str | None
    created_at: int


class ReadableMedia(Protocol):
    """What is known of it, and its bytes, once."""

    @property
    def info(self) -> MediaInfo: ...

    @property
    def chunks(self) -> AsyncIterator[bytes]: ...


def is_media_id(text: str) -> bool:
    return _MEDIA_ID.fullmatch(text) is not None


def parse_mxc(text: str) -> Mxc | None:
    """None for whatever is no `mxc://` address."""
    server, slash, media_id = text.removeprefix(SCHEME).partition("/")
    if not text.startswith(SCHEME) or not slash or not is_server_name(server) or not is_media_id(media_id):
        return None
    return Mxc(server, media_id)
