"""Drawing avatars."""

import io
import itertools
import string
from hashlib import sha256

import pytest
from PIL import Image

from bridge.matrix import ghost
from bridge.matrix.avatars import SIDE, UNKNOWN, picture
from bridge.matrix.ghost import Avatar

LETTERS = string.ascii_letters + string.digits + UNKNOWN
WHITE = (255, 255, 255)


def drawn(letters: str, colour: str = "#2d5aa8") -> Image.Image:
    """Decoded as by any client."""
    data = picture(Avatar("test", letters, colour))
    with Image.open(io.BytesIO(data)) as file:
        file.verify()
    with Image.open(io.BytesIO(data)) as file:
        assert (file.format, file.size) == ("PNG", (SIDE, SIDE))
        return file.convert("RGB")


def ink(image: Image.Image) -> list[tuple[int, int]]:
    """The pixels that are closer to white than to the background."""
    light = image.convert("L")
    return [(x, y) for x in range(SIDE) for y in range(SIDE) if light.getpixel((x, y)) > 180]


def test_white_letters_on_a_full_square() -> None:
    """Clients may or may not crop the corners."""
    image = drawn("Cl", "#b85c38")
    for corner in itertools.product((0, SIDE - 1), repeat=2):
        assert image.getpixel(corner) == (0xB8, 0x5C, 0x38)
    assert WHITE in {colour for _, colour in image.getcolors() or ()}


@pytest.mark.parametrize("letters", ["Cl", "Oc", "Ki", "Ai", "WW", "MM", "Qg", "Wj", "mw", "?"])
def test_circular_crop_keeps_the_letters(letters: str) -> None:
    """And the letters are centred."""
    pixels = ink(drawn(letters))
    middle = (SIDE - 1) / 2
    assert all((x - middle) ** 2 + (y - middle) ** 2 < (SIDE / 2 - 2) ** 2 for x, y in pixels)
    assert abs(min(x for x, _ in pixels) + max(x for x, _ in pixels) - 2 * middle) <= 2


def test_legible_at_32_pixels() -> None:
    """Strokes and the gaps between them survive."""
    small = drawn("Oc").resize((32, 32), Image.Resampling.BOX).convert("L")
    line = [small.getpixel((x, 18)) for x in range(32)]
    ground = small.getpixel((0, 0))
    # Left and right of the O, left of the c, and ground within the O.
    rises = sum(1 for one, other in itertools.pairwise(line) if one <= ground + 60 < other)
    assert rises == 3


def test_undrawable_letters() -> None:
    """Accents are dropped and other scripts skipped; without any letter a question mark is drawn."""
    assert picture(Avatar("a", "Äç", "#000000")) == picture(Avatar("a", "Ac", "#000000"))
    assert picture(Avatar("a", "中b", "#000000")) == picture(Avatar("a", "b", "#000000"))
    assert picture(Avatar("a", "中文", "#000000")) == picture(Avatar("a", "?", "#000000"))
    assert picture(Avatar("a", "", "#000000")) == picture(Avatar("a", "?", "#000000"))
    assert picture(Avatar("a", "abc", "#000000")) == picture(Avatar("a", "ab", "#000000"))


def test_output_is_deterministic() -> None:
    """On every machine and Python version. If this changes, perhaps with a new Pillow, every node uploads its
    avatars again and updates every room: change the drawing only for a good reason."""
    all_letters = b"".join(picture(Avatar("test", letter, "#2d5aa8")) for letter in LETTERS)
    assert sha256(all_letters).hexdigest() == ("57be4a65e2300235c2a0d192c0aeabed6b8c988d444399702d0449d876da0def")
    assert len(picture(ghost.NODE_AVATAR)) < 5_000


@pytest.mark.parametrize("runtime", ["claude", "open_code", "kimi", "aider", "other", "", "日本"])
def test_known_avatars_differ(runtime: str) -> None:
    """Each runtime with a predefined avatar has its own picture."""
    one = ghost.avatar(runtime)
    assert picture(one) != picture(ghost.NODE_AVATAR)
    assert ink(drawn(one.letters, one.colour))
