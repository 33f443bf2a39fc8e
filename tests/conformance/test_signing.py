"""The signing test vectors of the Matrix specification (appendices, "Cryptographic Test Vectors"), byte for
byte."""

from collections.abc import Mapping
from typing import Any

import pytest
from nacl.signing import SigningKey

from federation.events.event_signatures import hash_and_sign
from federation.matrix.room_version import ROOM_VERSIONS
from federation.matrix.signatures import decode_base64, sign

KEY = SigningKey(decode_base64("YJDBA9Xnr2sVqXD9Vj7XVUnmFZcZrlw8Md7kMW+3XA1") or b"")
SERVER, KEY_ID = "domain", "ed25519:1"
TIME = {"origin": SERVER, "origin_server_ts": 1_000_000, "unsigned": {"age_ts": 1_000_000}}


@pytest.mark.parametrize(
    ("value", "signature"),
    [
        ({}, "K8280/U9SSy9IVtjBuVeLr+HpOB4BQFWbg+UZaADMtTdGYI7Geitb76LTrr5QV/7Xg4ahLwYGYZzuHGZKM5ZAQ"),
        (
            {"one": 1, "two": "Two"},
            "KqmLSbO39/Bzb0QIYE82zqLwsA+PDzYIpIRA2sRQ4sL53+sN6/fpNSoqE7BP7vBZhG6kYdD13EIMJpvhJI+6Bw",
        ),
    ],
)
def test_an_object_is_signed(value: Mapping[str, Any], signature: str) -> None:
    assert sign(dict(value), SERVER, KEY_ID, KEY) == {**value, "signatures": {SERVER: {KEY_ID: signature}}}


@pytest.mark.parametrize(
    ("event", "sha256", "signature"),
    [
        (
            {"type": "X", "room_id": "!x:domain", "sender": "@a:domain", "content": {}, "depth": 3}
            | {"prev_events": [], "auth_events": []},
            "5jM4wQpv6lnBo7CLIghJuHdW+s2CMBJPUOGOC89ncos",
            "KxwGjPSDEtvnFgU00fwFz+l6d2pJM6XBIaMEn81SXPTRl16AqLAYqfIReFGZlHi5KLjAWbOoMszkwsQma+lYAg",
        ),
        (
            {"type": "m.room.message", "room_id": "!r:domain", "sender": "@u:domain", "event_id": "$0:domain"}
            | {"content": {"body": "Here is the message content"}},
            "onLKD1bGljeBWQhWZ1kaP9SorVmRQNdN5aM2JYU2n/g",
            "Wm+VzmOUOz08Ds+0NTWb1d4CZrVsJSikkeRxh6aCcUwu6pNC78FunoD7KNWzqFn241eYHYMGCA5McEiVPdhzBA",
        ),
    ],
)
def test_an_event_is_hashed_and_signed(event: Mapping[str, Any], sha256: str, signature: str) -> None:
    """The events are of room version 1. Version 3 hashes and redacts in the same way; only its event ids
    differ."""
    given = {**TIME, **event}
    signed = hash_and_sign(given, ROOM_VERSIONS["3"], SERVER, KEY_ID, KEY)
    assert signed == {**given, "hashes": {"sha256": sha256}, "signatures": {SERVER: {KEY_ID: signature}}}
