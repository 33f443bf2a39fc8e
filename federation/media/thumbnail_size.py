"""The sizes of thumbnails. Client-server API, "Thumbnails".

They are a fixed list, so that the number of stored thumbnails of an image is bounded for any requests.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from federation.matrix.errors import MatrixError


class Method(StrEnum):
    """ "scale maintains the original aspect ratio of the image; crop provides an image in the aspect ratio of
    the sizes given in the request"."""

    SCALE = "scale"
    CROP = "crop"


@dataclass(frozen=True, slots=True)
class ThumbnailSize:
    width: int
    height: int
    method: Method

    @property
    def name(self) -> str:
        """The name of the thumbnail among those of an image."""
        return f"{self.width}x{self.height}-{self.method}"


# The specification's five sizes, and squares in addition to the large ones: avatars are cropped to
# squares.
BOXES: Final = ((32, 32), (96, 96), (256, 256), (320, 240), (480, 480), (640, 480), (800, 600))


def choose_size(width: int, height: int, method: Method) -> ThumbnailSize:
    """Return the smallest size that is at least as large as requested; the client shrinks it.

    For cropping, a box of the same shape is preferred to a smaller one.
    """
    assert width > 0
    assert height > 0
    large_enough = [box for box in BOXES if box[0] >= width and box[1] >= height] or list(BOXES[-1:])
    if method is Method.CROP:
        large_enough.sort(key=lambda box: (abs(box[0] * height - box[1] * width) / (width * box[0]), box))
    return ThumbnailSize(*large_enough[0], method)


def parse_size(width: str | None, height: str | None, method: str | None) -> ThumbnailSize:
    """Parse the query of a request. "the caller requested non-integer dimensions, or asked for
    negatively-sized images" is a 400; so is an unknown method."""
    known_method = Method.SCALE if method is None else next((one for one in Method if one == method), None)
    if known_method is None:
        raise MatrixError("M_INVALID_PARAM", "method must be scale or crop.")
    return choose_size(_side("width", width), _side("height", height), known_method)


def _side(name: str, text: str | None) -> int:
    if text is None:
        raise MatrixError("M_MISSING_PARAM", f"{name} is missing.")
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0):
        raise MatrixError("M_INVALID_PARAM", f"{name} must be a positive integer.")
    return int(text)
