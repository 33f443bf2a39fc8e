"""Makes one thumbnail and ends: a program of its own, because what it reads is hostile.

It is run as a file, isolated from everything else of ours: a picture on standard input, the thumbnail on
standard output, and a status that says what went wrong. What it takes is limited by the kernel.
"""

import io
import resource
import sys
import warnings
from typing import IO, Final

from PIL import Image, ImageOps

UNREADABLE: Final = 3
TOO_LARGE: Final = 4

# What is decoded, whatever the file is called: each has few and simple rules.
FORMATS: Final = ("PNG", "JPEG", "WEBP", "GIF")
# Bytes that a pixel may take in all the copies that are made of it at once, and what the program takes.
BYTES_PER_PIXEL: Final = 16
BYTES_OF_PROGRAM: Final = 512 * 1024 * 1024
QUALITY: Final = 85


class TooLarge(ValueError):
    """Decoded, the picture would have more pixels than are allowed."""


def make(source: IO[bytes], width: int, height: int, *, crop: bool, most_pixels: int) -> bytes:
    """The thumbnail: a PNG where something shows through, a JPEG otherwise. No larger than the picture.

    Only the first frame of what moves; turned as its EXIF says, and nothing of EXIF or any other text in it.
    """
    try:
        plain = _decoded(source, max(width, height), most_pixels)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise TooLarge from error
    small = _cropped(plain, width, height) if crop else _scaled(plain, width, height)
    # A new one, which knows nothing of where its pixels come from.
    clean = Image.new(small.mode, small.size)
    clean.paste(small)
    written = io.BytesIO()
    if clean.mode == "RGBA":
        clean.save(written, "PNG")
    else:
        clean.save(written, "JPEG", quality=QUALITY)
    return written.getvalue()


def _decoded(source: IO[bytes], enough: int, most_pixels: int) -> Image.Image:
    """Upright, in colours, and not necessarily whole: no side needs more pixels than `enough`."""
    # Beyond it Pillow warns, for each frame that it comes to, and fails beyond its double.
    Image.MAX_IMAGE_PIXELS = most_pixels
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(source, formats=FORMATS) as image:
            # A JPEG is decoded in an eighth of its size where that is enough.
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


def limit_memory(most_pixels: int, seconds: int) -> None:
    """What goes beyond is refused by the kernel, or ended by it."""
    memory = BYTES_OF_PROGRAM + BYTES_PER_PIXEL * most_pixels
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    # No core of somebody else's picture, and no file: standard output is open already.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))


def main() -> int:
    width, height, most_pixels, seconds = (int(argument) for argument in sys.argv[1:5])
    limit_memory(most_pixels, seconds)
    try:
        thumbnail = make(sys.stdin.buffer, width, height, crop=sys.argv[5] == "crop", most_pixels=most_pixels)
    except (TooLarge, MemoryError):
        return TOO_LARGE
    except Exception:
        # Pillow raises whatever its decoders run into, and all of it means the same.
        return UNREADABLE
    sys.stdout.buffer.write(thumbnail)
    sys.stdout.buffer.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
