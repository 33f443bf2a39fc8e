"""Generated images."""

import io
import struct
import zlib
from typing import Any

from PIL import Image

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
HTML = b"<!doctype html><script>alert(1)</script>"


def picture(
    kind: str = "PNG",
    size: tuple[int, int] = (400, 200),
    *,
    mode: str = "RGB",
    colour: Any = (200, 30, 30),
    **options: Any,
) -> bytes:
    written = io.BytesIO()
    Image.new(mode, size, colour).save(written, kind, **options)
    return written.getvalue()


def moving(kind: str = "GIF", size: tuple[int, int] = (64, 64)) -> bytes:
    """A red frame, then a blue one."""
    written = io.BytesIO()
    frames = [Image.new("RGB", size, colour) for colour in ((255, 0, 0), (0, 0, 255))]
    frames[0].save(written, kind, save_all=True, append_images=frames[1:], duration=100)
    return written.getvalue()


def bomb(width: int = 60_000, height: int = 60_000) -> bytes:
    """A PNG of a few bytes that declares huge dimensions."""
    small = bytearray(picture(size=(1, 1)))
    small[16:24] = struct.pack(">II", width, height)
    small[29:33] = struct.pack(">I", zlib.crc32(small[12:29]))
    return bytes(small)
