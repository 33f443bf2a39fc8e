"""Sizes of thumbnails."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from federation.matrix.errors import MatrixError
from federation.media.thumbnail_size import BOXES, Method, choose_size, parse_size


@pytest.mark.parametrize(
    ("asked", "method", "name"),
    [
        ((32, 32), "scale", "32x32-scale"),
        ((1, 1), "scale", "32x32-scale"),
        ((33, 20), "scale", "96x96-scale"),
        ((300, 300), "scale", "480x480-scale"),
        ((800, 600), "scale", "800x600-scale"),
        ((100_000, 100_000), "scale", "800x600-scale"),
        ((96, 96), "crop", "96x96-crop"),
        ((100, 100), "crop", "256x256-crop"),
        ((300, 225), "crop", "320x240-crop"),
        ((257, 257), "crop", "480x480-crop"),
        ((40, 30), "crop", "320x240-crop"),
    ],
)
def test_the_smallest_sufficient_size_is_chosen(asked: tuple[int, int], method: str, name: str) -> None:
    """For cropping, the one of the same shape."""
    assert choose_size(*asked, Method(method)).name == name


@given(st.integers(1, 10**9), st.integers(1, 10**9), st.sampled_from(Method))
def test_the_number_of_sizes_is_bounded(width: int, height: int, method: Method) -> None:
    """One for each box and method, whatever is requested."""
    size = choose_size(width, height, method)
    assert (size.width, size.height) in BOXES
    if width <= BOXES[-1][0] and height <= BOXES[-1][1]:
        assert size.width >= width
        assert size.height >= height


def test_queries_are_parsed() -> None:
    """The default method is scale."""
    assert parse_size("96", "96", "crop").name == "96x96-crop"
    assert parse_size("640", "480", None).name == "640x480-scale"


@pytest.mark.parametrize(
    ("width", "height", "method", "errcode"),
    [
        (None, "1", None, "M_MISSING_PARAM"),
        ("1", None, None, "M_MISSING_PARAM"),
        ("0", "1", None, "M_INVALID_PARAM"),
        ("-5", "1", None, "M_INVALID_PARAM"),
        ("1.5", "1", None, "M_INVALID_PARAM"),
        ("1", "x", None, "M_INVALID_PARAM"),
        ("1", "", None, "M_INVALID_PARAM"),
        ("1", "٣", None, "M_INVALID_PARAM"),
        ("1", "9" * 5000, None, "M_INVALID_PARAM"),
        ("1", "1", "stretch", "M_INVALID_PARAM"),
        ("1", "1", "", "M_INVALID_PARAM"),
    ],
)
def test_invalid_queries_are_refused(width: str | None, height: str | None, method: str | None, errcode: str) -> None:
    """ "the caller requested non-integer dimensions, or asked for negatively-sized images" """
    with pytest.raises(MatrixError) as refused:
        parse_size(width, height, method)
    assert (refused.value.status, refused.value.errcode) == (400, errcode)
