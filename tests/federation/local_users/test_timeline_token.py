"""Pagination tokens of timelines."""

import pytest

from federation.local_users.reading import decode_token, encode_token
from federation.matrix.errors import MatrixError


def test_a_token_round_trips() -> None:
    """Including times before 1970 and arbitrary event ids."""
    for place in ((1, 5, "$abc_-_x:y"), (2**53 - 1, -(2**63 - 1), "$1")):
        assert decode_token(encode_token(*place)) == place


@pytest.mark.parametrize(
    "token", ["", "1", "1_2", "1_2_", "1_2_abc", "x_2_$a", "1_²_$a", f"{2**63}_1_$a", "--1_1_$a", "1_2_$\0"]
)
def test_an_invalid_token_is_refused(token: str) -> None:
    """It comes from outside and is used in a statement."""
    with pytest.raises(MatrixError, match="400 M_INVALID_PARAM"):
        decode_token(token)
