"""What somebody shows who asks."""

import pytest

from bridge.provisioning.authorization import Credentials, is_secret, read, secret_problem
from federation.matrix.errors import MatrixError

SECRET = "s" * 32


def test_one_token_is_shown() -> None:
    """In the header; one by which a user says who he is has its own mark."""
    assert read(["Bearer syt_abc"]) == Credentials("syt_abc")
    assert read(["bearer  syt_abc "]) == Credentials("syt_abc")
    assert read(["Bearer openid:abc"]) == Credentials("abc", is_openid=True)
    assert read(["Bearer a"]).digest != read(["Bearer openid:a"]).digest
    assert "syt_abc" not in repr(read(["Bearer syt_abc"]))


@pytest.mark.parametrize(
    "headers", [[], ["Basic abc"], ["Bearer"], ["Bearer "], ["Bearer a", "Bearer a"], [""]]
)
def test_none_is_missing(headers: list[str]) -> None:
    """So are two."""
    with pytest.raises(MatrixError, match="401 M_MISSING_TOKEN"):
        read(headers)


@pytest.mark.parametrize("token", ["a b", "ü", "a\tb", "x" * 4_097, "openid:", "\x7f"])
def test_what_no_homeserver_gives_is_not_asked_about(token: str) -> None:
    """Nobody has it."""
    with pytest.raises(MatrixError, match="401 M_UNKNOWN_TOKEN"):
        read([f"Bearer {token}"])


def test_a_secret_is_shown_as_it_is() -> None:
    """And is there only where somebody wrote one."""
    assert is_secret(Credentials(SECRET), SECRET)
    assert not is_secret(Credentials(SECRET + "s"), SECRET)
    assert not is_secret(Credentials(SECRET, is_openid=True), SECRET)
    assert not is_secret(Credentials(SECRET), None)


def test_a_secret_is_one_that_can_be_shown_and_not_guessed() -> None:
    """The sentence says what is wrong, and not what it was."""
    assert secret_problem(SECRET) is None
    for secret in ("short", "", "a b" * 20, f"openid:{SECRET}", "ü" * 40, f"{SECRET}\n{SECRET}"):
        wrong = secret_problem(secret)
        assert wrong is not None
        assert not secret or secret not in wrong
