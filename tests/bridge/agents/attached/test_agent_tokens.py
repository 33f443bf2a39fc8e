"""The form of tokens."""

import pytest

from bridge.agents.attached.tokens import ID_BYTES, SECRET_BYTES, Token, make_token, parse_bearer, parse_token

TOKEN = make_token(bytes(range(ID_BYTES)), bytes(range(SECRET_BYTES)))


def test_the_parts_of_a_token() -> None:
    """A fixed prefix, by which secret scanners find it, an id, and a fixed length."""
    assert TOKEN.text.startswith(f"plv_{TOKEN.token_id}")
    assert len(TOKEN.token_id) == 10
    for filling in (b"\0", b"\xff"):
        assert len(make_token(filling * ID_BYTES, filling * SECRET_BYTES).text) == len(TOKEN.text) == 63
    assert parse_token(TOKEN.text) == TOKEN
    assert TOKEN.text not in repr(TOKEN)


def test_each_token_has_its_own_hash() -> None:
    """Only the hash is stored."""
    other = make_token(bytes(range(ID_BYTES)), bytes(SECRET_BYTES))
    assert other.token_id == TOKEN.token_id
    assert TOKEN.matches(TOKEN.hash)
    assert not other.matches(TOKEN.hash)
    assert not TOKEN.matches(b"")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plv_",
        TOKEN.text[:-1],
        TOKEN.text + "0",
        TOKEN.text + "\n",
        TOKEN.text.replace("plv_", "PLV_"),
        TOKEN.text[:20] + ("a" if TOKEN.text[20] != "a" else "b") + TOKEN.text[21:],
        TOKEN.text[:-1] + ("a" if TOKEN.text[-1] != "a" else "b"),
        TOKEN.text[:-1] + "é",
        TOKEN.text[:-1] + "\ud800",
    ],
)
def test_a_miscopied_token_is_invalid(text: str) -> None:
    """The checksum shows it before the database is queried."""
    assert parse_token(text) is None


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ([f"Bearer {TOKEN.text}"], TOKEN),
        ([f"bearer  {TOKEN.text} "], TOKEN),
        ([], None),
        ([f"Bearer {TOKEN.text}", f"Bearer {TOKEN.text}"], None),
        ([TOKEN.text], None),
        ([f"Basic {TOKEN.text}"], None),
        (["Bearer"], None),
        ([""], None),
    ],
)
def test_the_authorization_header(headers: list[str], token: Token | None) -> None:
    """RFC 6750: exactly one, of the scheme `Bearer`."""
    assert parse_bearer(headers) == token
