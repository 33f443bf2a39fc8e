"""Content types of media: which type to serve, so that browsers show it without running active content.

Also reads type and dimensions of an image from its first bytes, without decoding it.
"""

import re
import struct
from typing import Final

HEAD_BYTES: Final = 64
"""The number of first bytes that suffice."""

PNG: Final = "image/png"
JPEG: Final = "image/jpeg"
GIF: Final = "image/gif"
WEBP: Final = "image/webp"
AVIF: Final = "image/avif"

DECODABLE: Final = frozenset({PNG, JPEG, GIF, WEBP})
"""The types for which thumbnails are created."""

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_AVIF_BRANDS: Final = frozenset({b"avif", b"avis"})


def image_type(head: bytes) -> str | None:
    """Detect the type of an image by its bytes; None for other types."""
    if head.startswith(_PNG):
        return PNG
    if head.startswith(b"\xff\xd8\xff"):
        return JPEG
    if head.startswith((b"GIF87a", b"GIF89a")):
        return GIF
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return WEBP
    if head[4:8] == b"ftyp" and head[8:12] in _AVIF_BRANDS:
        return AVIF
    return None


def dimensions(head: bytes) -> tuple[int, int] | None:
    """Return width and height that the first bytes declare; None if they do not.

    A JPEG declares them anywhere in the file. Its decoder reads up to there without allocating the image.
    """
    match image_type(head):
        case "image/png" if len(head) >= 24:
            return _unpack(">II", head, 16)
        case "image/gif" if len(head) >= 10:
            return _unpack("<HH", head, 6)
        case "image/webp" if len(head) >= 30:
            return _webp(head)
    return None


def _webp(head: bytes) -> tuple[int, int] | None:
    """Return the dimensions by the first chunk, of which RFC 9649 has three kinds."""
    match head[12:16]:
        case b"VP8X":
            width, height = int.from_bytes(head[24:27], "little"), int.from_bytes(head[27:30], "little")
            return width + 1, height + 1
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = _unpack("<HH", head, 26)
            return width & 0x3FFF, height & 0x3FFF
    return None


def _unpack(form: str, head: bytes, offset: int) -> tuple[int, int]:
    width, height = struct.unpack_from(form, head, offset)
    return width, height


UNKNOWN: Final = "application/octet-stream"

# Client-server API, "Serving inline content", without text/css, which affects the page that loads it. SVG
# and HTML are excluded because they can contain scripts.
_IMAGES: Final = frozenset({"image/jpeg", "image/gif", "image/png", "image/apng", "image/webp", "image/avif"})
INLINE: Final = _IMAGES | {
    "text/plain", "text/csv", "application/json", "application/ld+json",
    "video/mp4", "video/webm", "video/ogg", "video/quicktime",
    "audio/mp4", "audio/webm", "audio/aac", "audio/mpeg", "audio/ogg", "audio/wave", "audio/wav",
    "audio/x-wav", "audio/x-pn-wav", "audio/flac", "audio/x-flac",
}  # fmt: skip

# RFC 9110, 5.6.2 and 8.3.1. RFC 6838, 4.2 allows no name longer than 127 characters.
_TYPE: Final = re.compile(
    r"[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]{1,127}/[!#$%&'*+.^_`|~0-9A-Za-z-]{1,127})[ \t]*(?:;|\Z)", re.ASCII
)
# The only parameter that is kept. Other charsets can hide the content of a text.
_UTF_8: Final = re.compile(r";[ \t]*charset=\"?utf-8\"?[ \t]*(?:;|\Z)", re.ASCII | re.IGNORECASE)
_MAX_LENGTH: Final = 1024


def media_type(declared: str | None) -> str:
    """Return the declared type in lower case and without parameters; `UNKNOWN` if it is invalid."""
    match = _TYPE.match(declared[:_MAX_LENGTH]) if declared else None
    return match[1].lower() if match else UNKNOWN


def effective_type(declared: str | None, head: bytes) -> str:
    """Return the type as which the bytes are stored and served.

    Bytes declared as an image get the type that is detected in them, or `UNKNOWN` if they are no image.
    """
    kind = media_type(declared)
    if kind in _IMAGES:
        found = image_type(head)
        if found is None:
            return UNKNOWN
        return kind if (kind, found) == ("image/apng", "image/png") else found
    if kind.startswith("text/") and declared is not None and _UTF_8.search(declared[:_MAX_LENGTH]):
        return f"{kind}; charset=utf-8"
    return kind


def is_inline(content_type: str) -> bool:
    """Whether a browser may display the type instead of saving it."""
    return media_type(content_type) in INLINE
