"""Content types of served media."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.media.media_type import UNKNOWN, effective_type, is_inline, media_type
from tests.federation.pictures import HTML, SVG, picture


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("image/png", "image/png"),
        (" Text/HTML ; charset=x", "text/html"),
        ("a/b", "a/b"),
        (None, UNKNOWN),
        ("", UNKNOWN),
        ("image", UNKNOWN),
        ("image/", UNKNOWN),
        ("image/png, text/html", UNKNOWN),
        ("image/png\r\nX: y", UNKNOWN),
        ("image/png\n", UNKNOWN),
        ("text/html\0", UNKNOWN),
        ("ımage/png", UNKNOWN),
        ("a/" + "b" * 128, UNKNOWN),
        ("a" * 10_000_000 + "/b", UNKNOWN),
    ],
)
def test_invalid_types_are_unknown(declared: str | None, kind: str) -> None:
    """Nothing can split a header or add a second type."""
    assert media_type(declared) == kind


@pytest.mark.parametrize(
    ("declared", "data", "believed"),
    [
        ("image/png", picture("PNG"), "image/png"),
        ("image/apng", picture("PNG"), "image/apng"),
        ("image/png", picture("JPEG"), "image/jpeg"),
        ("image/apng", picture("GIF"), "image/gif"),
        ("image/png", HTML, UNKNOWN),
        ("image/jpeg", b"", UNKNOWN),
        ("image/svg+xml", SVG, "image/svg+xml"),
        ("text/html", HTML, "text/html"),
        ("text/plain; charset=UTF-8", b"", "text/plain; charset=utf-8"),
        ('text/plain; format=flowed; charset="utf-8"', b"", "text/plain; charset=utf-8"),
        ("text/plain; charset=utf-7", b"", "text/plain"),
        ("video/mp4; codecs=x", b"", "video/mp4"),
        (None, picture("PNG"), UNKNOWN),
    ],
)
def test_the_type_of_an_image_is_detected(declared: str | None, data: bytes, believed: str) -> None:
    """A program declared as an image is not served as one."""
    assert effective_type(declared, data[:64]) == believed


@pytest.mark.parametrize("kind", ["image/png", "image/webp", "text/plain; charset=utf-8", "audio/ogg", "video/mp4"])
def test_types_without_active_content_are_inline(kind: str) -> None:
    """Browsers display them."""
    assert is_inline(kind)


@pytest.mark.parametrize(
    "kind",
    [
        "image/svg+xml", "text/html", "text/xml", "application/xhtml+xml", "application/pdf", "text/css",
        "text/javascript", "application/javascript", "application/octet-stream", "multipart/mixed", "x/y", "",
    ],
)  # fmt: skip
def test_other_types_are_attachments(kind: str) -> None:
    """Browsers save them."""
    assert not is_inline(kind)


@given(st.text(), st.binary(max_size=64))
def test_any_declared_type_gives_a_valid_header(declared: str, head: bytes) -> None:
    """One line of ASCII; the result is stable."""
    believed = effective_type(declared, head)
    assert believed.isascii()
    assert believed.isprintable()
    assert effective_type(believed, head) == believed
