"""Draws an avatar: white letters on its colour, as a PNG. The same avatar has the same bytes, everywhere.

It is a full square, since clients cut out of it whatever shape they like: a circle leaves the letters whole.
"""

import unicodedata
from binascii import crc32
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil, floor, sqrt
from struct import pack
from typing import Final

from bridge.avatar_letters import BASE, TOP, UNKNOWN, Point, is_known, shape
from bridge.ghost import Avatar

SIDE: Final = 96
CONTENT_TYPE: Final = "image/png"
MOST_LETTERS: Final = 2
SHADES: Final = 16
"""From the colour to white: four bits."""

_SCALE: Final = 2.75
"""Pixels of one unit of the letters' grid."""
_WIDEST: Final = 68.0
"""Pixels that the letters may take together: more would not be within a circle."""
_PEN: Final = 2.5
_GAP: Final = 1.7
"""Between the ink of two letters, both in units of the grid."""


def picture(avatar: Avatar) -> bytes:
    letters = _drawable(avatar.letters)
    return _png(_drawn(letters), _palette(avatar.colour))


def _drawable(letters: str) -> str:
    """An Ä is drawn as an A; of what cannot be drawn at all, nothing is."""
    plain = (unicodedata.normalize("NFKD", letter)[0] for letter in letters)
    return "".join(letter for letter in plain if is_known(letter))[:MOST_LETTERS] or UNKNOWN


# -- drawing --


def _drawn(letters: str) -> list[bytearray]:
    """Rows of shades, 0 for the colour alone."""
    shapes = [shape(letter) for letter in letters]
    sides = [_sides(strokes) for strokes in shapes]
    wide = sum(right - left for left, right in sides) + _PEN + (_PEN + _GAP) * (len(shapes) - 1)
    scale = min(_SCALE, _WIDEST / wide)
    # The letters' middle is that of the picture, whether or not one of them has a tail.
    x, y = (SIDE - wide * scale) / 2, (SIDE - (TOP + BASE) * scale) / 2
    x += _PEN / 2 * scale
    rows = [bytearray(SIDE) for _ in range(SIDE)]
    for strokes, (left, right) in zip(shapes, sides, strict=True):
        for stroke in strokes:
            points = [(x + (one[0] - left) * scale, y + one[1] * scale) for one in stroke]
            for start, end in pairwise(points):
                _draw_line(rows, start, end, _PEN / 2 * scale)
        x += (right - left + _PEN + _GAP) * scale
    return rows


def _sides(strokes: Sequence[Sequence[Point]]) -> tuple[float, float]:
    across = [x for stroke in strokes for x, _ in stroke]
    return min(across), max(across)


def _draw_line(rows: list[bytearray], start: Point, end: Point, radius: float) -> None:
    """With round ends. A pixel at the edge is as white as it is covered."""
    (x1, y1), (x2, y2) = start, end
    along_x, along_y = x2 - x1, y2 - y1
    length = along_x * along_x + along_y * along_y
    for row in _pixels(y1, y2, radius):
        for column in _pixels(x1, x2, radius):
            x, y = column + 0.5 - x1, row + 0.5 - y1
            at = 0.0 if length == 0 else min(1.0, max(0.0, (x * along_x + y * along_y) / length))
            from_x, from_y = x - at * along_x, y - at * along_y
            # sqrt is exact to the last digit on every machine; hypot is not.
            covered = radius + 0.5 - sqrt(from_x * from_x + from_y * from_y)
            shade = floor(min(1.0, max(0.0, covered)) * (SHADES - 1) + 0.5)
            rows[row][column] = max(rows[row][column], shade)


def _pixels(one: float, other: float, radius: float) -> range:
    low, high = min(one, other) - radius - 1, max(one, other) + radius + 1
    return range(max(0, floor(low)), min(SIDE, ceil(high)))


def _palette(colour: str) -> bytes:
    assert len(colour) == 7, "a colour is #rrggbb"
    ground = bytes.fromhex(colour.removeprefix("#"))
    return bytes(
        one + ((255 - one) * shade + (SHADES - 1) // 2) // (SHADES - 1)
        for shade in range(SHADES)
        for one in ground
    )


# -- the file, as in "Portable Network Graphics (PNG) Specification (Third Edition)" --


def _png(rows: Sequence[Sequence[int]], palette: bytes) -> bytes:
    # "Bit depth 4, colour type 3: each pixel is a palette index"; then compression, filter and interlace.
    header = pack(">IIBBBBB", SIDE, SIDE, 4, 3, 0, 0, 0)
    # "each scanline is preceded by a filter type byte": 0 is none. "the leftmost pixel in the high-order
    # bits" of a byte.
    lines = b"".join(b"\0" + bytes(_pairs(row)) for row in rows)
    parts = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", _zlib(lines)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(type_, data) for type_, data in parts)


def _pairs(row: Sequence[int]) -> Iterator[int]:
    for left, right in zip(row[::2], row[1::2], strict=True):
        yield left << 4 | right


def _chunk(type_: bytes, data: bytes) -> bytes:
    return pack(">I", len(data)) + type_ + data + pack(">I", crc32(type_ + data))


def _zlib(data: bytes) -> bytes:
    """Stored, not compressed: what compresses it differs between machines, and a picture with other bytes
    would be another one. RFC 1950, 2.2, and RFC 1951, 3.2.4."""
    assert len(data) < 1 << 16, "a block that is stored has no more"
    # "BFINAL" is set, "BTYPE 00 - no compression", "LEN", "NLEN is the one's complement of LEN".
    block = b"\x01" + pack("<HH", len(data), len(data) ^ 0xFFFF) + data
    one, two = 1, 0
    for byte in data:
        one = (one + byte) % 65521
        two = (two + one) % 65521
    return b"\x78\x01" + block + pack(">HH", two, one)
