"""Signers for tests: every server signs with the key that its name gives it, so that events are the same
each time."""

import hashlib
from functools import cache

from nacl.signing import SigningKey

from federation.pdu import Signer
from federation.signatures import VerifyKey

FOREVER = 2**53 - 1


@cache
def signer(server: str) -> Signer:
    """The server's only key, which is called `ed25519:test`."""
    return Signer(server, "ed25519:test", SigningKey(hashlib.sha256(server.encode()).digest()))


def verify_keys(*servers: str, valid_until_ts: int = FOREVER) -> dict[str, dict[str, VerifyKey]]:
    """What a key ring knows when it knows these servers."""
    return {
        server: {signer(server).key_id: VerifyKey(bytes(signer(server).key.verify_key), valid_until_ts)}
        for server in servers
    }
