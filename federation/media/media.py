"""Media: mxc URIs, metadata, errors and settings. Client-server API, "Content Repository"."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from federation.client.errors import PeerRefused
from federation.matrix.errors import MatrixError, limit_exceeded
from federation.matrix.identifiers import is_server_name

SCHEME: Final = "mxc://"
# "MUST only contain the characters A-Z, a-z, 0-9, _ and -." The length limit is that of other ids.
_MEDIA_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,255}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Mxc:
    """`mxc://server/media_id`. Neither part may be used in a path on the disk."""

    server: str
    media_id: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.server}/{self.media_id}"


@dataclass(frozen=True, slots=True)
class MediaInfo:
    """The metadata of stored media.

    `sha256` is the hash of the bytes, in hexadecimal. `content_type` is the type they are served as, which
    may differ from the declared one. `uploader` is None for media of other servers.
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
    """The metadata of media and its bytes, which can be read once."""

    info: MediaInfo
    chunks: AsyncIterator[bytes]


def is_media_id(text: str) -> bool:
    return _MEDIA_ID.fullmatch(text) is not None


def parse_mxc(text: str) -> Mxc | None:
    """Parse an `mxc://` URI; None if it is invalid."""
    server, slash, media_id = text.removeprefix(SCHEME).partition("/")
    if not text.startswith(SCHEME) or not slash or not is_server_name(server) or not is_media_id(media_id):
        return None
    return Mxc(server, media_id)


# `retry_after_ms` for too many concurrent requests.
BUSY_MS = 2_000


def not_found() -> MatrixError:
    return MatrixError("M_NOT_FOUND", "This media does not exist on this server.", 404)


def invalid_mxc_uri() -> MatrixError:
    return MatrixError("M_INVALID_PARAM", "This is not a valid mxc:// URI.")


def not_yet_uploaded() -> MatrixError:
    return MatrixError("M_NOT_YET_UPLOADED", "This media has not been uploaded yet.", 504)


def upload_too_large(limit: int) -> MatrixError:
    return MatrixError("M_TOO_LARGE", f"This server accepts uploads of at most {limit} bytes.", 413)


def remote_too_large(limit: int) -> MatrixError:
    return MatrixError("M_TOO_LARGE", f"The media has more than {limit} bytes and is too large to be downloaded.", 502)


def image_too_large() -> MatrixError:
    return MatrixError("M_TOO_LARGE", "The image is too large for a thumbnail.", 413)


def no_thumbnail() -> MatrixError:
    return MatrixError("M_UNKNOWN", "A thumbnail of this media cannot be created.", 400)


def disk_full() -> MatrixError:
    return MatrixError("M_UNKNOWN", "This server has no disk space left for media.", 507)


def busy() -> MatrixError:
    return limit_exceeded("Too many concurrent requests for media.", 429, BUSY_MS)


def is_unaware_of_endpoint(error: PeerRefused) -> bool:
    """Whether the server does not support authenticated media: "a 404 M_UNRECOGNIZED error".

    Older servers respond with 400 or 405 too, or with a 404 without a Matrix error.
    """
    if error.errcode is None:
        return error.status == 404
    return error.errcode == "M_UNRECOGNIZED" and error.status in {400, 404, 405}


def client_error(error: PeerRefused) -> MatrixError | None:
    """Return the error for the client if the origin's refusal is useful to it, else None."""
    match error.status, error.errcode:
        case 404, _:
            return not_found()
        case 504, "M_NOT_YET_UPLOADED":
            return not_yet_uploaded()
        case 429, _:
            return limit_exceeded(
                "The server of this media limits the rate of requests.", 429, error.retry_after_ms or BUSY_MS
            )
        case ((413 | 502), "M_TOO_LARGE"):
            return MatrixError("M_TOO_LARGE", "The origin server refused the media as too large.", 502)
    return None


MIB: Final = 1024 * 1024
DAY_MS: Final = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class MediaSettings:
    """Sizes in bytes, times in milliseconds."""

    max_upload_size: int = 50 * MIB
    # For media of other servers: the largest file, the size of the cache, and the age after the last use.
    max_remote_size: int = 50 * MIB
    remote_cache_size: int = 2048 * MIB
    remote_cache_age: int = 30 * DAY_MS
    # The largest image in pixels for which a thumbnail is created, and the timeout in seconds.
    max_image_pixels: int = 32_000_000
    thumbnail_timeout: float = 20.0
    # Disk space that is left free: Postgres stops when the disk is full.
    reserve: int = 256 * MIB
