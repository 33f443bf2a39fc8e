"""Whether it is the homeserver that asks."""

import pytest

from appservice.registration.tokens import check
from federation.matrix.errors import MatrixError

TOKEN = "h" * 43


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ([f"Bearer {TOKEN}"], []),
        ([f"bearer  {TOKEN} "], []),
        ([], [TOKEN]),
        ([f"Bearer {TOKEN}"], [TOKEN]),
    ],
)
def test_the_token_is_taken_in_the_header_and_in_the_query(headers: list[str], query: list[str]) -> None:
    """Older homeservers send the parameter, some both."""
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
def test_any_other_is_refused(headers: list[str], query: list[str]) -> None:
    """403 `M_FORBIDDEN`; of several each has to be right."""
    with pytest.raises(MatrixError) as refused:
        check(headers, query, TOKEN)
    assert (refused.value.status, refused.value.errcode) == (403, "M_FORBIDDEN")
    assert TOKEN not in refused.value.text


def test_who_shows_none_is_told_so() -> None:
    """401: nothing was refused yet."""
    with pytest.raises(MatrixError) as refused:
        check([], [], TOKEN)
    assert (refused.value.status, refused.value.errcode) == (401, "M_UNAUTHORIZED")
