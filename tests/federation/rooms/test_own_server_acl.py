"""Server ACLs that this server sets."""

import pytest

from federation.matrix.errors import MatrixError
from federation.rooms.server_acl import MAX_PATTERNS, check_own_server_allowed, content_of


def test_an_acl_that_allows_this_server() -> None:
    """Its content has the fields of the specification."""
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
def test_an_acl_that_denies_this_server_is_refused(
    allow: tuple[str, ...], deny: tuple[str, ...], literals: bool
) -> None:
    """No local user could revoke it."""
    with pytest.raises(MatrixError, match="would deny this server"):
        content_of("a.example:7676", allow, deny, allow_ip_literals=literals)


def test_a_server_named_by_an_address_cannot_deny_ip_literals() -> None:
    """It would deny itself."""
    with pytest.raises(MatrixError, match="would deny this server"):
        content_of("127.0.0.1:7676", allow_ip_literals=False)
    assert content_of("127.0.0.1:7676")["allow_ip_literals"] is True


@pytest.mark.parametrize("content", [{}, {"allow": "a.example"}, [], None])
def test_given_content_is_checked_as_well(content: object) -> None:
    """An ACL without an allow list denies every server."""
    with pytest.raises(MatrixError, match="would deny this server"):
        check_own_server_allowed("a.example", content)


def test_a_long_acl_is_refused() -> None:
    """Every request of every server is matched against it."""
    with pytest.raises(MatrixError, match="at most"):
        content_of("a.example", ["*"] * (MAX_PATTERNS + 1))
