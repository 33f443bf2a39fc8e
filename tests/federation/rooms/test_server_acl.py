"""Server ACLs (client-server API, `m.room.server_acl`)."""

from typing import Any

import pytest

from federation.matrix.errors import MatrixError
from federation.rooms.server_acl import MAX_PATTERNS, NO_ACL, check_own_server_allowed, server_acl, server_acl_content


def allows(content: dict[str, Any] | None, server: str) -> bool:
    return server_acl(content).allows(server)


def test_without_acl_every_server_is_allowed() -> None:
    """1. If there is no event in the room state, allow; but not an invalid server name."""
    for server in ("a.example", "a.example:8448", "1.2.3.4", "[::1]:8448"):
        assert allows(None, server)
        assert NO_ACL.allows(server)
    assert not allows(None, "not a server")


@pytest.mark.parametrize("server", ["1.2.3.4", "1.2.3.4:8448", "[::1]", "[2001:db8::1]:8448"])
def test_ip_literals(server: str) -> None:
    """2. Denied if `allow_ip_literals` is `false`; anything else there means `true`."""
    assert not allows({"allow": ["*"], "allow_ip_literals": False}, server)
    for content in ({}, {"allow_ip_literals": True}, {"allow_ip_literals": None}, {"allow_ip_literals": 0}):
        assert allows({"allow": ["*"], **content}, server)
    assert allows({"allow": ["*"], "allow_ip_literals": False}, "a.example")


def test_deny_comes_before_allow() -> None:
    """3. and 4."""
    content = {"allow": ["*"], "deny": ["*.evil.example", "evil.example"]}
    assert not allows(content, "evil.example")
    assert not allows(content, "very.evil.example")
    assert allows(content, "notevil.example")
    assert not allows({"allow": ["a.example"], "deny": ["a.example"]}, "a.example")


def test_otherwise_deny() -> None:
    """5. Without a matching `allow` entry, deny."""
    content: dict[str, Any]
    for content in ({}, {"deny": []}, {"allow": []}, {"allow": ["b.example"]}):
        assert not allows(content, "a.example")


def test_the_port_does_not_matter() -> None:
    """evil.com, evil.com:8448 and evil.com:1234 match rules that apply to evil.com; and so the rule has no
    port."""
    for server in ("evil.com", "evil.com:8448", "evil.com:1234"):
        assert not allows({"allow": ["*"], "deny": ["evil.com"]}, server)
        assert allows({"allow": ["*"], "deny": ["evil.com:8448"]}, server)
    assert not allows({"allow": ["*"], "deny": ["[::1]"]}, "[::1]:8448")


def test_case_does_not_matter() -> None:
    """v1.19, MSC4436."""
    assert not allows({"allow": ["*"], "deny": ["EVIL.com"]}, "evil.COM")
    assert allows({"allow": ["*.Example"]}, "A.EXAMPLE")


@pytest.mark.parametrize("malformed", [None, 3, "*", {"*": 1}, [3, None, ["*"]], True])
def test_malformed_lists_match_nothing(malformed: Any) -> None:
    """They must be lists of strings."""
    assert not allows({"allow": malformed}, "a.example")
    assert allows({"allow": [malformed, "*"], "deny": malformed}, "a.example")


def test_an_acl_that_allows_this_server() -> None:
    """Its content has the fields of the specification."""
    assert server_acl_content("a.example:7676", deny=["*.evil.example"]) == {
        "allow": ["*"],
        "deny": ["*.evil.example"],
        "allow_ip_literals": True,
    }


@pytest.mark.parametrize(
    ("allow", "deny", "literals"),
    [((), (), True), (("b.example",), (), True), (("*",), ("*.EXAMPLE",), True), (("*",), ("?.example",), True)],
)
def test_an_acl_that_denies_this_server_is_refused(
    allow: tuple[str, ...], deny: tuple[str, ...], literals: bool
) -> None:
    """No local user could revoke it."""
    with pytest.raises(MatrixError, match="would deny this server"):
        server_acl_content("a.example:7676", allow, deny, allow_ip_literals=literals)


def test_a_server_named_by_an_address_cannot_deny_ip_literals() -> None:
    """It would deny itself."""
    with pytest.raises(MatrixError, match="would deny this server"):
        server_acl_content("127.0.0.1:7676", allow_ip_literals=False)
    assert server_acl_content("127.0.0.1:7676")["allow_ip_literals"] is True


@pytest.mark.parametrize("content", [{}, {"allow": "a.example"}, [], None])
def test_given_content_is_checked_as_well(content: object) -> None:
    """An ACL without an allow list denies every server."""
    with pytest.raises(MatrixError, match="would deny this server"):
        check_own_server_allowed("a.example", content)


def test_a_long_acl_is_refused() -> None:
    """Every request of every server is matched against it."""
    with pytest.raises(MatrixError, match="at most"):
        server_acl_content("a.example", ["*"] * (MAX_PATTERNS + 1))
