"""Pictures for agents."""

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
    """As anybody reads it."""
    data = picture(Avatar("test", letters, colour))
    with Image.open(io.BytesIO(data)) as file:
        file.verify()
    with Image.open(io.BytesIO(data)) as file:
        assert (file.format, file.size) == ("PNG", (SIDE, SIDE))
        return file.convert("RGB")


def ink(image: Image.Image) -> list[tuple[int, int]]:
    """The pixels that are more letter than ground."""
    light = image.convert("L")
    return [(x, y) for x in range(SIDE) for y in range(SIDE) if light.getpixel((x, y)) > 180]


def test_white_letters_on_a_colour() -> None:
    """To the very corners, since a client cuts them off or not."""
    image = drawn("Cl", "#b85c38")
    for corner in itertools.product((0, SIDE - 1), repeat=2):
        assert image.getpixel(corner) == (0xB8, 0x5C, 0x38)
    assert WHITE in {colour for _, colour in image.getcolors() or ()}


@pytest.mark.parametrize("letters", ["Cl", "Oc", "Ki", "Ai", "WW", "MM", "Qg", "Wj", "mw", "?"])
def test_a_circle_leaves_the_letters_whole(letters: str) -> None:
    """As clients cut it; and they stand in the middle."""
    pixels = ink(drawn(letters))
    middle = (SIDE - 1) / 2
    assert all((x - middle) ** 2 + (y - middle) ** 2 < (SIDE / 2 - 2) ** 2 for x, y in pixels)
    assert abs(min(x for x, _ in pixels) + max(x for x, _ in pixels) - 2 * middle) <= 2


def test_they_can_be_read_when_they_are_small() -> None:
    """At 32 pixels the strokes are still there, and the spaces between them."""
    small = drawn("Oc").resize((32, 32), Image.Resampling.BOX).convert("L")
    line = [small.getpixel((x, 18)) for x in range(32)]
    ground = small.getpixel((0, 0))
    # Left and right of the O, left of the c, and ground within the O.
    rises = sum(1 for one, other in itertools.pairwise(line) if one <= ground + 60 < other)
    assert rises == 3


def test_what_cannot_be_drawn() -> None:
    """A letter with a mark is drawn without; of another script there is nothing; without any, a question."""
    assert picture(Avatar("a", "Äç", "#000000")) == picture(Avatar("a", "Ac", "#000000"))
    assert picture(Avatar("a", "中b", "#000000")) == picture(Avatar("a", "b", "#000000"))
    assert picture(Avatar("a", "中文", "#000000")) == picture(Avatar("a", "?", "#000000"))
    assert picture(Avatar("a", "", "#000000")) == picture(Avatar("a", "?", "#000000"))
    assert picture(Avatar("a", "abc", "#000000")) == picture(Avatar("a", "ab", "#000000"))


def test_the_same_bytes_everywhere() -> None:
    """On every machine, with every Python. If this changes, perhaps with a new Pillow, every node uploads its
    pictures anew, and every room is told of every agent: draw in another way for a good reason only."""
    all_letters = b"".join(picture(Avatar("test", letter, "#2d5aa8")) for letter in LETTERS)
    assert sha256(all_letters).hexdigest() == (
        "57be4a65e2300235c2a0d192c0aeabed6b8c988d444399702d0449d876da0def"
    )
    assert len(picture(ghost.NODE_AVATAR)) < 5_000


@pytest.mark.parametrize("runtime", ["claude", "open_code", "kimi", "aider", "other", "", "日本"])
def test_known_faces_can_be_drawn(runtime: str) -> None:
    """Whatever a runtime is called; and differently for each."""
    one = ghost.avatar(runtime)
    assert picture(one) != picture(ghost.NODE_AVATAR)
    assert ink(drawn(one.letters, one.colour))
