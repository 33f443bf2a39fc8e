"""What media may be served as: whoever opens it in a browser shall see it, and nothing in it shall run.

What the first bytes of a picture say: its type, and how large it is before anybody decodes it.
"""

import re
import struct
from typing import Final

ENOUGH: Final = 64
"""Bytes that tell all of it."""

PNG: Final = "image/png"
JPEG: Final = "image/jpeg"
GIF: Final = "image/gif"
WEBP: Final = "image/webp"
AVIF: Final = "image/avif"

CAN_BE_DECODED: Final = frozenset({PNG, JPEG, GIF, WEBP})
"""The types that thumbnails are made of."""

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_AVIF_BRANDS: Final = frozenset({b"avif", b"avis"})


def image_type(head: bytes) -> str | None:
    """The type that the bytes have, whatever anybody calls it; None when it is none of these."""
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
    """Width and height as the head claims them; None where it does not say.

    A JPEG says it anywhere in the file. Its decoder reads up to there without making room for the picture.
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
    """RFC 9649: three kinds of first chunk."""
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

# Client-server API, "Serving inline content", without text/css: a style sheet acts on the page that loads it.
# SVG and HTML are missing on purpose, they hold scripts.
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
# Of all parameters the only one that is kept. Any other charset is a way to hide what a text says.
_UTF_8: Final = re.compile(r";[ \t]*charset=\"?utf-8\"?[ \t]*(?:;|\Z)", re.ASCII | re.IGNORECASE)
_LONGEST: Final = 1024


def media_type(declared: str | None) -> str:
    """The type that somebody gave: in lower case, without parameters; `UNKNOWN` if it is none."""
    match = _TYPE.match(declared[:_LONGEST]) if declared else None
    return match[1].lower() if match else UNKNOWN


def believed_type(declared: str | None, head: bytes) -> str:
    """What these bytes are kept and served as.

    What is called a picture and is one gets the type that its bytes show; what is called a picture and is
    none is nothing that anybody should look at.
    """
    kind = media_type(declared)
    if kind in _IMAGES:
        found = image_type(head)
        if found is None:
            return UNKNOWN
        return kind if (kind, found) == ("image/apng", "image/png") else found
    if kind.startswith("text/") and declared is not None and _UTF_8.search(declared[:_LONGEST]):
        return f"{kind}; charset=utf-8"
    return kind


def is_inline(content_type: str) -> bool:
    """Whether a browser may show it by itself instead of saving it."""
    return media_type(content_type) in INLINE
