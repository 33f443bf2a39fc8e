"""Encryption of people's tokens."""

from appservice.registration.tokens import KEY_BYTES, NONCE_BYTES, seal, unseal

KEY, OTHER_KEY, NONCE = b"k" * KEY_BYTES, b"o" * KEY_BYTES, b"n" * NONCE_BYTES
ALICE, TOKEN = "@alice:their.server", "syt_YWxpY2U_secret"


def test_round_trip() -> None:
    """Another key reveals nothing."""
    box = seal(KEY, NONCE, ALICE, TOKEN)
    assert unseal(KEY, box, ALICE) == TOKEN
    assert unseal(OTHER_KEY, box, ALICE) is None
    assert TOKEN.encode() not in box
    assert ALICE.encode() not in box


def test_bound_to_the_person() -> None:
    """A copy in another row cannot be decrypted."""
    assert unseal(KEY, seal(KEY, NONCE, ALICE, TOKEN), "@bob:their.server") is None


def test_modified_box_is_refused() -> None:
    """And arbitrary bytes."""
    box = bytearray(seal(KEY, NONCE, ALICE, TOKEN))
    box[-1] ^= 1
    for other in (bytes(box), b"", b"x", b"x" * 100):
        assert unseal(KEY, other, ALICE) is None
