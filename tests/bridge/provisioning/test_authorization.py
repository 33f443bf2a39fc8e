"""Credentials of a request."""

import pytest

from bridge.provisioning.authorization import Credentials, is_secret, read, secret_problem
from federation.matrix.errors import MatrixError

SECRET = "s" * 32


def test_bearer_token() -> None:
    """An OpenID token has a prefix."""
    assert read(["Bearer syt_abc"]) == Credentials("syt_abc")
    assert read(["bearer  syt_abc "]) == Credentials("syt_abc")
    assert read(["Bearer openid:abc"]) == Credentials("abc", is_openid=True)
    assert read(["Bearer a"]).digest != read(["Bearer openid:a"]).digest
    assert "syt_abc" not in repr(read(["Bearer syt_abc"]))


@pytest.mark.parametrize("headers", [[], ["Basic abc"], ["Bearer"], ["Bearer "], ["Bearer a", "Bearer a"], [""]])
def test_missing_token(headers: list[str]) -> None:
    """Or two."""
    with pytest.raises(MatrixError, match="401 M_MISSING_TOKEN"):
        read(headers)


@pytest.mark.parametrize("token", ["a b", "ü", "a\tb", "x" * 4_097, "openid:", "\x7f"])
def test_invalid_tokens_are_refused(token: str) -> None:
    """Without a request."""
    with pytest.raises(MatrixError, match="401 M_UNKNOWN_TOKEN"):
        read([f"Bearer {token}"])


def test_shared_secret() -> None:
    """Only if one is configured."""
    assert is_secret(Credentials(SECRET), SECRET)
    assert not is_secret(Credentials(SECRET + "s"), SECRET)
    assert not is_secret(Credentials(SECRET, is_openid=True), SECRET)
    assert not is_secret(Credentials(SECRET), None)


def test_secret_problems() -> None:
    """The sentence does not reveal the secret."""
    assert secret_problem(SECRET) is None
    for secret in ("short", "", "a b" * 20, f"openid:{SECRET}", "ü" * 40, f"{SECRET}\n{SECRET}"):
        wrong = secret_problem(secret)
        assert wrong is not None
        assert not secret or secret not in wrong
