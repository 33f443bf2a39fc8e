"""Creates one thumbnail: a separate program, because images may be malicious.

It is run as a file, isolated from the rest of the code: the image is on standard input, the thumbnail on
standard output, and the exit status is the error. The kernel limits its resources.
"""

import io
import resource
import sys
import warnings
from typing import IO, Final

from PIL import Image, ImageOps

UNREADABLE: Final = 3
TOO_LARGE: Final = 4

# The formats that are decoded, independent of the declared type. Each is simple.
FORMATS: Final = ("PNG", "JPEG", "WEBP", "GIF")
# Memory for each pixel, in all copies that exist at the same time, and memory of the program itself.
BYTES_PER_PIXEL: Final = 16
PROGRAM_BYTES: Final = 512 * 1024 * 1024
QUALITY: Final = 85


class TooLarge(ValueError):
    """The decoded image would have more pixels than allowed."""


def make(source: IO[bytes], width: int, height: int, *, crop: bool, max_pixels: int) -> bytes:
    """Return the thumbnail: a PNG if the image has transparency, else a JPEG. It is not larger than the
    image.

    Only the first frame of an animation is used. EXIF orientation is applied, and no metadata is copied.
    """
    try:
        plain = _decoded(source, max(width, height), max_pixels)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise TooLarge from error
    small = _cropped(plain, width, height) if crop else _scaled(plain, width, height)
    # A new image without the metadata of the original.
    clean = Image.new(small.mode, small.size)
    clean.paste(small)
    written = io.BytesIO()
    if clean.mode == "RGBA":
        clean.save(written, "PNG")
    else:
        clean.save(written, "JPEG", quality=QUALITY)
    return written.getvalue()


def _decoded(source: IO[bytes], enough: int, max_pixels: int) -> Image.Image:
    """Decode the image upright, as RGB or RGBA. It may be reduced: no side needs more pixels than
    `enough`."""
    # Pillow warns beyond this size, for each frame, and fails beyond twice this size.
    Image.MAX_IMAGE_PIXELS = max_pixels
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(source, formats=FORMATS) as image:
            # A JPEG is decoded at a reduced scale, down to an eighth, if that suffices.
            image.draft(None, (enough, enough))
            image.load()
            ImageOps.exif_transpose(image, in_place=True)
            return image.convert("RGBA" if image.has_transparency_data else "RGB")


def _scaled(image: Image.Image, width: int, height: int) -> Image.Image:
    image.thumbnail((width, height), Image.Resampling.LANCZOS)
    return image


def _cropped(image: Image.Image, width: int, height: int) -> Image.Image:
    """ "homeservers MUST NOT upscale": a small picture is cropped to the same shape, but smaller."""
    shrink = min(1.0, image.width / width, image.height / height)
    box = (max(1, round(width * shrink)), max(1, round(height * shrink)))
    return ImageOps.fit(image, box, Image.Resampling.LANCZOS)


def limit_memory(max_pixels: int, seconds: int) -> None:
    """Set resource limits, which the kernel enforces."""
    memory = PROGRAM_BYTES + BYTES_PER_PIXEL * max_pixels
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    # No core dumps with users' images, and few files: standard output is already open.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))


def main() -> int:
    width, height, max_pixels, seconds = (int(argument) for argument in sys.argv[1:5])
    limit_memory(max_pixels, seconds)
    try:
        thumbnail = make(sys.stdin.buffer, width, height, crop=sys.argv[5] == "crop", max_pixels=max_pixels)
    except (TooLarge, MemoryError):
        return TOO_LARGE
    except Exception:
        # Pillow's decoders raise many kinds of exceptions, which all mean that the image is invalid.
        return UNREADABLE
    sys.stdout.buffer.write(thumbnail)
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
