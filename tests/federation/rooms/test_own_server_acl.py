"""ACLs that this server sets."""

import pytest

from federation.matrix.errors import MatrixError
from federation.rooms.server_acl import MAX_PATTERNS, check_own_server_allowed, content_of


def test_an_acl_that_lets_us_in_is_made() -> None:
    """In the words of the specification."""
    assert content_of("a.example:7676", deny=["*.evil.example"]) == {
        "allow": ["*"],
        "deny": ["*.evil.example"],
        "allow_ip_literals": True,
    }


@pytest.mark.parametrize(
    ("allow", "deny", "literals"),
    [
        ((), (), True),
        (("b.example",), (), True),
        (("*",), ("*.EXAMPLE",), True),
        (("*",), ("?.example",), True),
    ],
)
def test_an_acl_that_shuts_us_out_is_refused(
    allow: tuple[str, ...], deny: tuple[str, ...], literals: bool
) -> None:
    """Nobody here could take it back."""
    with pytest.raises(MatrixError, match="would deny this server"):
        content_of("a.example:7676", allow, deny, allow_ip_literals=literals)


def test_a_server_without_a_name_cannot_refuse_those_without() -> None:
    """We are one of the IP literals then."""
    with pytest.raises(MatrixError, match="would deny this server"):
        content_of("127.0.0.1:7676", allow_ip_literals=False)
    assert content_of("127.0.0.1:7676")["allow_ip_literals"] is True


@pytest.mark.parametrize("content", [{}, {"allow": "a.example"}, [], None])
def test_content_that_somebody_put_together_is_looked_at_too(content: object) -> None:
    """An ACL without a list of whom it allows denies everybody."""
    with pytest.raises(MatrixError, match="would deny this server"):
        check_own_server_allowed("a.example", content)


def test_an_endless_acl_is_refused() -> None:
    """Every request of every server is held against it."""
    with pytest.raises(MatrixError, match="at most"):
        content_of("a.example", ["*"] * (MAX_PATTERNS + 1))
