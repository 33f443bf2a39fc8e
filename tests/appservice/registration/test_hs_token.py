"""Authentication of the homeserver."""

import pytest

from appservice.registration.tokens import check
from federation.matrix.errors import MatrixError

TOKEN = "h" * 43


@pytest.mark.parametrize(
    ("headers", "query"),
    [([f"Bearer {TOKEN}"], []), ([f"bearer  {TOKEN} "], []), ([], [TOKEN]), ([f"Bearer {TOKEN}"], [TOKEN])],
)
def test_header_and_query(headers: list[str], query: list[str]) -> None:
    """Older homeservers use the parameter, some both."""
    check(headers, query, TOKEN)


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        (["Bearer x"], []),
        (["Bearer"], []),
        ([""], []),
        ([TOKEN], []),
        ([f"Basic {TOKEN}"], []),
        ([f"Bearer {TOKEN}x"], []),
        ([f"Bearer {TOKEN}", "Bearer x"], []),
        ([], ["x"]),
        ([], [""]),
        ([], ["é\ud800"]),
        ([f"Bearer {TOKEN}"], ["x"]),
        (["Bearer x"], [TOKEN]),
        ([], [TOKEN, "x"]),
    ],
)
def test_wrong_token_is_refused(headers: list[str], query: list[str]) -> None:
    """403 `M_FORBIDDEN`; every given token has to match."""
    with pytest.raises(MatrixError) as refused:
        check(headers, query, TOKEN)
    assert (refused.value.status, refused.value.errcode) == (403, "M_FORBIDDEN")
    assert TOKEN not in refused.value.text


def test_missing_token() -> None:
    """401."""
    with pytest.raises(MatrixError) as refused:
        check([], [], TOKEN)
    assert (refused.value.status, refused.value.errcode) == (401, "M_UNAUTHORIZED")
