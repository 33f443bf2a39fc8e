"""Media: its name, and what is known of it. Client-server API, "Content Repository".

What is said to whoever asks for media that cannot be given, and what a peer's refusal means for ours.

What the configuration says of media.
"""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from federation.client.errors import PeerRefused
from federation.matrix.errors import MatrixError, limit_exceeded
from federation.matrix.identifiers import is_server_name

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


@dataclass(frozen=True, slots=True)
class OpenMedia:
    """What is known of it, and its bytes, once."""

    info: MediaInfo
    chunks: AsyncIterator[bytes]


def is_media_id(text: str) -> bool:
    return _MEDIA_ID.fullmatch(text) is not None


def parse_mxc(text: str) -> Mxc | None:
    """None for whatever is no `mxc://` address."""
    server, slash, media_id = text.removeprefix(SCHEME).partition("/")
    if not text.startswith(SCHEME) or not slash or not is_server_name(server) or not is_media_id(media_id):
        return None
    return Mxc(server, media_id)


# How long a peer that asks for too much at once is sent away.
BUSY_MS = 2_000


def not_found() -> MatrixError:
    return MatrixError("M_NOT_FOUND", "This server has no such media.", 404)


def no_address() -> MatrixError:
    return MatrixError("M_INVALID_PARAM", "That is not the address of any media.")


def not_yet_uploaded() -> MatrixError:
    return MatrixError("M_NOT_YET_UPLOADED", "Its uploader has not sent this media yet.", 504)


def upload_too_large(limit: int) -> MatrixError:
    return MatrixError("M_TOO_LARGE", f"This server takes uploads of at most {limit} bytes.", 413)


def remote_too_large(limit: int) -> MatrixError:
    return MatrixError("M_TOO_LARGE", f"The media has more than {limit} bytes: too large to be fetched.", 502)


def image_too_large() -> MatrixError:
    return MatrixError("M_TOO_LARGE", "The image is too large to make a thumbnail of it.", 413)


def no_thumbnail() -> MatrixError:
    return MatrixError("M_UNKNOWN", "No thumbnail can be made of this media.", 400)


def no_room() -> MatrixError:
    return MatrixError("M_UNKNOWN", "This server has no room left for media.", 507)


def busy() -> MatrixError:
    return limit_exceeded("Too many requests for media at the same time.", 429, BUSY_MS)


def is_unaware_of_endpoint(error: PeerRefused) -> bool:
    """Whether the server does not know authenticated media: "a 404 M_UNRECOGNIZED error".

    Servers from before it existed say so in other ways too: 400 or 405, or a 404 that is no Matrix error.
    """
    if error.errcode is None:
        return error.status == 404
    return error.errcode == "M_UNRECOGNIZED" and error.status in {400, 404, 405}


def passed_on(error: PeerRefused) -> MatrixError | None:
    """The origin's word on its own media, where whoever asked here can make something of it."""
    match error.status, error.errcode:
        case 404, _:
            return not_found()
        case 504, "M_NOT_YET_UPLOADED":
            return not_yet_uploaded()
        case 429, _:
            return limit_exceeded(
                "The server of this media is asked too often.", 429, error.retry_after_ms or BUSY_MS
            )
        case ((413 | 502), "M_TOO_LARGE"):
            return MatrixError("M_TOO_LARGE", "The media is too large for its own server.", 502)
    return None


MIB: Final = 1024 * 1024
DAY_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class MediaSettings:
    """Sizes in bytes, times in milliseconds."""

    max_upload_size: int = 50 * MIB
    # Of media of other servers: one of it, all of it together, and how long nobody may have looked at it.
    max_remote_size: int = 50 * MIB
    remote_cache_size: int = 2048 * MIB
    remote_cache_age: int = 30 * DAY_MS
    # Pixels of a picture that a thumbnail is made of, and seconds that it may take.
    max_image_pixels: int = 32_000_000
    thumbnail_timeout: float = 20.0
    # What is left on the disk for everything else: a Postgres that finds it full stops.
    reserve: int = 256 * MIB
