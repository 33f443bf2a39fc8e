"""Ed25519 over a PDU: the cost of every event and every federation request."""

from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nacl.signing import SigningKey

from bench._harness.measurement import Measurement
from bench._harness.repeat import repeat
from bench._harness.row import Row, Section, Side
from bench._limits.event import SIZE, canonical, message

NACL = "PyNaCl"
CRYPTOGRAPHY = "cryptography"


@dataclass(frozen=True, slots=True)
class Signed:
    """One key in both libraries, and a message with its signature."""

    nacl: SigningKey
    cryptography: Ed25519PrivateKey
    message: bytes
    signature: bytes


def signed() -> Signed:
    """A new key; both libraries derive the same public key from its seed."""
    key = SigningKey.generate()
    text = canonical(message())
    other = Ed25519PrivateKey.from_private_bytes(bytes(key))
    return Signed(key, other, text, key.sign(text).signature)


def sign_with_nacl(subject: Signed, seconds: float) -> Measurement:
    """`SigningKey.sign`, as signedjson calls it."""
    return repeat(seconds, partial(subject.nacl.sign, subject.message))


def sign_with_cryptography(subject: Signed, seconds: float) -> Measurement:
    """`Ed25519PrivateKey.sign`."""
    return repeat(seconds, partial(subject.cryptography.sign, subject.message))


def verify_with_nacl(subject: Signed, seconds: float) -> Measurement:
    """`VerifyKey.verify`; raises if the signature is wrong."""
    return repeat(seconds, partial(subject.nacl.verify_key.verify, subject.message, subject.signature))


def verify_with_cryptography(subject: Signed, seconds: float) -> Measurement:
    """`Ed25519PublicKey.verify`; raises if the signature is wrong."""
    verify = subject.cryptography.public_key().verify
    return repeat(seconds, partial(verify, subject.signature, subject.message))


SECTION = Section(
    setup=lambda: nullcontext(signed()),
    rows=[
        Row(
            name="ed25519-verify",
            what=f"Ed25519 verify, {SIZE} B",
            ours=Side(NACL, verify_with_nacl),
            other=Side(CRYPTOGRAPHY, verify_with_cryptography),
        ),
        Row(
            name="ed25519-sign",
            what=f"Ed25519 sign, {SIZE} B",
            ours=Side(NACL, sign_with_nacl),
            other=Side(CRYPTOGRAPHY, sign_with_cryptography),
        ),
    ],
)
