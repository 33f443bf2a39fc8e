"""The specification's cryptographic test vectors (appendix "Cryptographic Test Vectors")."""

import json
from pathlib import Path
from typing import Any

import pytest
from nacl.signing import SigningKey

from federation.events.event_signatures import hash_and_sign
from federation.matrix.room_version import ROOM_VERSIONS
from federation.matrix.signatures import decode_base64, sign

VECTORS = json.loads((Path(__file__).parent / "vectors" / "spec-signing.json").read_text())
KEY = SigningKey(decode_base64(VECTORS["seed"]) or b"")
SERVER, KEY_ID = VECTORS["server_name"], VECTORS["key_id"]


@pytest.mark.parametrize("vector", VECTORS["json"])
def test_signing_json(vector: dict[str, Any]) -> None:
    """The signature of an object, bit for bit."""
    signed = sign(vector["input"], SERVER, KEY_ID, KEY)
    assert signed == {**vector["input"], "signatures": {SERVER: {KEY_ID: vector["signature"]}}}


@pytest.mark.parametrize("vector", VECTORS["events"])
def test_signing_an_event(vector: dict[str, Any]) -> None:
    """The content hash and the signature of an event, bit for bit.

    The vectors are of room version 1. Version 3 hashes and redacts as it does; it only names events
    otherwise.
    """
    assert vector["room_version"] == "1"
    signed = hash_and_sign(vector["input"], ROOM_VERSIONS["3"], SERVER, KEY_ID, KEY)
    assert signed["hashes"] == {"sha256": vector["sha256"]}
    assert signed["signatures"] == {SERVER: {KEY_ID: vector["signature"]}}
    assert {**signed, "hashes": {}, "signatures": {}} == {**vector["input"], "hashes": {}, "signatures": {}}
