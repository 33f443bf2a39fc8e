"""Type and dimensions of images by their first bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.media.media_type import HEAD_BYTES, dimensions, image_type
from tests.federation.pictures import HTML, SVG, bomb, moving, picture


@pytest.mark.parametrize(
    ("data", "kind", "size"),
    [
        (picture("PNG"), "image/png", (400, 200)),
        (picture("GIF"), "image/gif", (400, 200)),
        (moving("GIF"), "image/gif", (64, 64)),
        (picture("JPEG"), "image/jpeg", None),
        (picture("WEBP"), "image/webp", (400, 200)),
        (picture("WEBP", lossless=True), "image/webp", (400, 200)),
        (picture("WEBP", mode="RGBA", colour=(1, 2, 3, 4)), "image/webp", (400, 200)),
        (moving("WEBP"), "image/webp", (64, 64)),
        (bomb(), "image/png", (60_000, 60_000)),
        (b"\0\0\0\x20ftypavif" + bytes(40), "image/avif", None),
    ],
)
def test_images_are_detected(data: bytes, kind: str, size: tuple[int, int] | None) -> None:
    """The type, and the dimensions if the first bytes have them, for all three kinds of WebP too."""
    assert image_type(data[:HEAD_BYTES]) == kind
    assert dimensions(data[:HEAD_BYTES]) == size


@pytest.mark.parametrize("data", [b"", SVG, HTML, b"\x89PNG", b"RIFF\0\0\0\0WAVE", b"BM" + bytes(60), b"%PDF-1.7"])
def test_other_types_are_not_detected(data: bytes) -> None:
    """SVG may contain scripts."""
    assert image_type(data) is None
    assert dimensions(data) is None


@given(
    st.sampled_from([b"\x89PNG\r\n\x1a\n", b"GIF89a", b"RIFF1234WEBP", b"RIFF1234WEBPVP8X", b"\xff\xd8\xff", b""]),
    st.binary(max_size=HEAD_BYTES),
)
def test_any_bytes_are_accepted(beginning: bytes, rest: bytes) -> None:
    """Without an exception."""
    dimensions(beginning + rest)
