"""The program that creates one thumbnail."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from federation.media import thumbnail_worker
from federation.media.thumbnail_worker import TOO_LARGE, UNREADABLE, TooLarge, make
from tests.federation.pictures import HTML, SVG, bomb, moving, picture

MOST = 1_000_000


@pytest.fixture(autouse=True)
def restore_pixel_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow's limit is global to the process."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", Image.MAX_IMAGE_PIXELS)


def thumbnail(data: bytes, width: int = 96, height: int = 96, *, crop: bool = False) -> Image.Image:
    made = Image.open(io.BytesIO(make(io.BytesIO(data), width, height, crop=crop, max_pixels=MOST)))
    made.load()
    return made


def run_worker(
    data: bytes, tmp_path: Path, *, most: int = MOST, seconds: int = 10
) -> subprocess.CompletedProcess[bytes]:
    """Run the program as the node does."""
    file = tmp_path / "original"
    file.write_bytes(data)
    with file.open("rb") as source:
        return subprocess.run(
            [sys.executable, "-I", thumbnail_worker.__file__, "96", "96", str(most), str(seconds), "scale"],
            stdin=source, capture_output=True, check=False, env={},
        )  # fmt: skip


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
def test_images_are_scaled_or_cropped(kind: str) -> None:
    """Scaling keeps the shape, cropping gives the requested one."""
    data = picture(kind, (400, 200))
    assert thumbnail(data).size == (96, 48)
    assert thumbnail(data, crop=True).size == (96, 96)
    assert thumbnail(data).format == "JPEG"


def test_small_images_are_not_upscaled() -> None:
    """ "never upscale": cropping changes only the shape."""
    data = picture(size=(40, 20))
    assert thumbnail(data).size == (40, 20)
    assert thumbnail(data, 96, 96, crop=True).size == (20, 20)
    assert thumbnail(picture(size=(1, 1)), 800, 600, crop=True).size == (1, 1)


@pytest.mark.parametrize(
    ("mode", "colour"),
    [("RGBA", (10, 20, 30, 40)), ("LA", (10, 40)), ("RGB", (1, 2, 3)), ("L", 7), ("1", 1), ("I;16", 9)],
)
def test_transparency_is_kept(mode: str, colour: object) -> None:
    """As a PNG; other images become a JPEG."""
    made = thumbnail(picture(mode=mode, colour=colour))
    assert made.format == ("PNG" if "A" in mode else "JPEG")
    if mode == "RGBA":
        pixel = made.getpixel((5, 5))
        assert isinstance(pixel, tuple)
        assert pixel[3] == 40


def test_the_transparency_of_a_palette_is_kept() -> None:
    """Of a GIF, or a PNG with a palette."""
    data = picture("GIF", mode="P", colour=0, transparency=0)
    assert thumbnail(data).format == "PNG"


def test_cmyk_is_converted_to_rgb() -> None:
    """Browsers show CMYK differently."""
    assert thumbnail(picture("JPEG", mode="CMYK", colour=(0, 0, 0, 0))).mode == "RGB"


def test_exif_orientation_is_applied_and_exif_removed() -> None:
    """EXIF may have the place and the time."""
    exif = Image.Exif()
    exif[0x0112] = 6  # rotated by 90°
    exif[0x010F] = "A camera of somebody"
    for kind in ("JPEG", "PNG", "WEBP"):
        data = picture(kind, (400, 200), exif=exif.tobytes())
        assert b"somebody" in data
        made = make(io.BytesIO(data), 96, 96, crop=False, max_pixels=MOST)
        assert b"somebody" not in made
        with Image.open(io.BytesIO(made)) as image:
            assert image.size == (48, 96)
            assert not dict(image.getexif())


def test_texts_and_profiles_are_removed() -> None:
    """They may contain names."""
    data = picture("PNG", mode="RGBA", colour=(1, 2, 3, 4), icc_profile=b"profile of somebody")
    made = make(io.BytesIO(data), 96, 96, crop=False, max_pixels=MOST)
    assert b"iCCP" in data
    assert b"iCCP" not in made


@pytest.mark.parametrize("kind", ["GIF", "WEBP"])
def test_only_the_first_frame_is_used(kind: str) -> None:
    """Of an animation."""
    made = thumbnail(moving(kind), 32, 32)
    pixel = made.getpixel((5, 5))
    assert isinstance(pixel, tuple)
    assert pixel[0] > 200 > 50 > pixel[2]
    assert getattr(made, "n_frames", 1) == 1


@pytest.mark.parametrize("data", [bomb(), picture(size=(1001, 1000)), picture("JPEG", (1001, 1000))])
def test_images_that_are_too_large_are_not_decoded(data: bytes, tmp_path: Path) -> None:
    """By their declared dimensions."""
    with pytest.raises(TooLarge):
        make(io.BytesIO(data), 96, 96, crop=False, max_pixels=MOST)
    assert run_worker(data, tmp_path).returncode == TOO_LARGE


def test_a_frame_larger_than_the_image_is_detected(tmp_path: Path) -> None:
    """Frames of a GIF may exceed the image."""
    data = bytearray(picture("GIF", (10, 10)))
    at = data.index(b",")  # the descriptor of the frame
    data[at + 5 : at + 9] = (60_000).to_bytes(2, "little") * 2
    assert run_worker(bytes(data), tmp_path).returncode == TOO_LARGE


@pytest.mark.parametrize(
    "data", [b"", b"hello", SVG, HTML, picture()[:100], picture("BMP"), picture("TIFF"), picture("JPEG")[:300]]
)
def test_invalid_images_have_an_exit_status(data: bytes, tmp_path: Path) -> None:
    """Including formats that are not enabled: each decoder can have vulnerabilities."""
    answer = run_worker(data, tmp_path)
    assert (answer.returncode, answer.stdout) == (UNREADABLE, b"")


def test_the_program_is_isolated(tmp_path: Path) -> None:
    """It needs no packages, environment or directory of this project."""
    answer = run_worker(picture(), tmp_path)
    assert answer.returncode == 0
    with Image.open(io.BytesIO(answer.stdout)) as image:
        assert image.size == (96, 48)
