"""How people's tokens are kept."""

from appservice.registration.tokens import KEY_BYTES, NONCE_BYTES, seal, unseal

KEY, OTHER_KEY, NONCE = b"k" * KEY_BYTES, b"o" * KEY_BYTES, b"n" * NONCE_BYTES
ALICE, TOKEN = "@alice:their.server", "syt_YWxpY2U_secret"


def test_what_is_sealed_is_opened_with_the_same_key() -> None:
    """And nothing of it can be read otherwise."""
    box = seal(KEY, NONCE, ALICE, TOKEN)
    assert unseal(KEY, box, ALICE) == TOKEN
    assert unseal(OTHER_KEY, box, ALICE) is None
    assert TOKEN.encode() not in box
    assert ALICE.encode() not in box


def test_it_is_one_persons() -> None:
    """Copied into another row it is nobody's."""
    assert unseal(KEY, seal(KEY, NONCE, ALICE, TOKEN), "@bob:their.server") is None


def test_what_was_changed_is_not_opened() -> None:
    """Nor what never was seal."""
    box = bytearray(seal(KEY, NONCE, ALICE, TOKEN))
    box[-1] ^= 1
    for other in (bytes(box), b"", b"x", b"x" * 100):
        assert unseal(KEY, other, ALICE) is None
