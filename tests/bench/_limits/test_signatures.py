import dataclasses
from collections.abc import Callable

import pytest
from cryptography.exceptions import InvalidSignature
from nacl.exceptions import BadSignatureError

from bench._harness.measurement import Measurement
from bench._limits.signatures import (
    SECTION,
    Signed,
    sign_with_cryptography,
    sign_with_nacl,
    signed,
    verify_with_cryptography,
    verify_with_nacl,
)


def test_both_libraries_do_the_same_work() -> None:
    """The same key, the same bytes, the same signature."""
    subject = signed()
    assert subject.cryptography.sign(subject.message) == subject.signature
    assert len(subject.message) == 837


@pytest.mark.parametrize("sample", [side.sample for row in SECTION.rows for side in row.sides])
def test_every_side_measures(sample: Callable[[Signed, float], Measurement]) -> None:
    """And succeeds, or it would have raised."""
    assert sample(signed(), 0.001).operations > 0


@pytest.mark.parametrize(
    ("sample", "error"), [(verify_with_nacl, BadSignatureError), (verify_with_cryptography, InvalidSignature)]
)
def test_a_verification_that_fails_is_no_figure(
    sample: Callable[[Signed, float], Measurement], error: type[Exception]
) -> None:
    """What is measured is verifying a good signature to the end."""
    forged = dataclasses.replace(signed(), signature=bytes(64))
    with pytest.raises(error):
        sample(forged, 0.001)


def test_ours_is_what_palaver_uses() -> None:
    """PyNaCl, through signedjson's way of calling it."""
    assert [row.ours.sample for row in SECTION.rows] == [verify_with_nacl, sign_with_nacl]
    assert [row.other and row.other.sample for row in SECTION.rows] == [
        verify_with_cryptography,
        sign_with_cryptography,
    ]
