"""What the first bytes of a picture say: its type, and how large it is before anybody decodes it."""

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
