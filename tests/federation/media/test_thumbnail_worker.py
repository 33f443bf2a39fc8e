"""The program that makes one thumbnail."""

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
def the_limit_is_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow has one for the whole process, which is the program's own when it is run as one."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", Image.MAX_IMAGE_PIXELS)


def thumbnail(data: bytes, width: int = 96, height: int = 96, *, crop: bool = False) -> Image.Image:
    made = Image.open(io.BytesIO(make(io.BytesIO(data), width, height, crop=crop, max_pixels=MOST)))
    made.load()
    return made


def ask(
    data: bytes, tmp_path: Path, *, most: int = MOST, seconds: int = 10
) -> subprocess.CompletedProcess[bytes]:
    """As the node runs it."""
    file = tmp_path / "original"
    file.write_bytes(data)
    with file.open("rb") as source:
        return subprocess.run(
            [sys.executable, "-I", thumbnail_worker.__file__, "96", "96", str(most), str(seconds), "scale"],
            stdin=source, capture_output=True, check=False, env={},
        )  # fmt: skip


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF"])
def test_the_picture_gets_smaller(kind: str) -> None:
    """Scaled it keeps its shape, cropped it gets the one that is asked for."""
    data = picture(kind, (400, 200))
    assert thumbnail(data).size == (96, 48)
    assert thumbnail(data, crop=True).size == (96, 96)
    assert thumbnail(data).format == "JPEG"


def test_a_small_picture_stays_small() -> None:
    """ "never upscale": cropped it gets the shape, and no more pixels than it has."""
    data = picture(size=(40, 20))
    assert thumbnail(data).size == (40, 20)
    assert thumbnail(data, 96, 96, crop=True).size == (20, 20)
    assert thumbnail(picture(size=(1, 1)), 800, 600, crop=True).size == (1, 1)


@pytest.mark.parametrize(
    ("mode", "colour"),
    [("RGBA", (10, 20, 30, 40)), ("LA", (10, 40)), ("RGB", (1, 2, 3)), ("L", 7), ("1", 1), ("I;16", 9)],
)
def test_what_shows_through_stays(mode: str, colour: object) -> None:
    """As a PNG; everything else becomes a JPEG, in whatever way its colours were kept."""
    made = thumbnail(picture(mode=mode, colour=colour))
    assert made.format == ("PNG" if "A" in mode else "JPEG")
    if mode == "RGBA":
        pixel = made.getpixel((5, 5))
        assert isinstance(pixel, tuple)
        assert pixel[3] == 40


def test_a_transparent_palette_shows_through() -> None:
    """A GIF, or a PNG with a palette, says it elsewhere."""
    data = picture("GIF", mode="P", colour=0, transparency=0)
    assert thumbnail(data).format == "PNG"


def test_colours_for_print_are_turned_into_light() -> None:
    """Browsers do not show CMYK alike."""
    assert thumbnail(picture("JPEG", mode="CMYK", colour=(0, 0, 0, 0))).mode == "RGB"


def test_it_is_turned_upright_and_tells_nothing() -> None:
    """EXIF says how it was held, and where, by whom and when: only the first is used, and none is kept."""
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    exif[0x010F] = "A camera of somebody"
    for kind in ("JPEG", "PNG", "WEBP"):
        data = picture(kind, (400, 200), exif=exif.tobytes())
        assert b"somebody" in data
        made = make(io.BytesIO(data), 96, 96, crop=False, max_pixels=MOST)
        assert b"somebody" not in made
        with Image.open(io.BytesIO(made)) as image:
            assert image.size == (48, 96)
            assert not dict(image.getexif())


def test_texts_and_profiles_are_not_kept() -> None:
    """Where text can be, there can be a name."""
    data = picture("PNG", mode="RGBA", colour=(1, 2, 3, 4), icc_profile=b"profile of somebody")
    made = make(io.BytesIO(data), 96, 96, crop=False, max_pixels=MOST)
    assert b"iCCP" in data
    assert b"iCCP" not in made


@pytest.mark.parametrize("kind", ["GIF", "WEBP"])
def test_what_moves_stands_still(kind: str) -> None:
    """Its first frame is the picture."""
    made = thumbnail(moving(kind), 32, 32)
    pixel = made.getpixel((5, 5))
    assert isinstance(pixel, tuple)
    assert pixel[0] > 200 > 50 > pixel[2]
    assert getattr(made, "n_frames", 1) == 1


@pytest.mark.parametrize("data", [bomb(), picture(size=(1001, 1000)), picture("JPEG", (1001, 1000))])
def test_what_is_too_large_is_not_decoded(data: bytes, tmp_path: Path) -> None:
    """By what it claims: to decode it is what must not happen."""
    with pytest.raises(TooLarge):
        make(io.BytesIO(data), 96, 96, crop=False, max_pixels=MOST)
    assert ask(data, tmp_path).returncode == TOO_LARGE


def test_a_first_frame_larger_than_the_picture_is_seen(tmp_path: Path) -> None:
    """A GIF's frames may reach out of it, and its size is what they need then."""
    data = bytearray(picture("GIF", (10, 10)))
    at = data.index(b",")  # the descriptor of the frame
    data[at + 5 : at + 9] = (60_000).to_bytes(2, "little") * 2
    assert ask(bytes(data), tmp_path).returncode == TOO_LARGE


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", SVG, HTML, picture()[:100], picture("BMP"), picture("TIFF"), picture("JPEG")[:300]],
)
def test_what_cannot_be_read_is_said(data: bytes, tmp_path: Path) -> None:
    """Other kinds of pictures among them: each decoder less is one that nobody can attack."""
    answer = ask(data, tmp_path)
    assert (answer.returncode, answer.stdout) == (UNREADABLE, b"")


def test_it_runs_by_itself(tmp_path: Path) -> None:
    """Without our packages, an environment or a directory of ours."""
    answer = ask(picture(), tmp_path)
    assert answer.returncode == 0
    with Image.open(io.BytesIO(answer.stdout)) as image:
        assert image.size == (96, 48)
