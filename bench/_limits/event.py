"""The PDU for the rows of signing and JSON: 837 bytes of canonical JSON, a typical message."""

import base64
from hashlib import sha256, sha512
from typing import Any

from canonicaljson import encode_canonical_json

SIZE = 837


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _event_id(number: int) -> str:
    return "$" + base64.urlsafe_b64encode(sha256(bytes([number])).digest()).decode().rstrip("=")


def message(size: int = SIZE) -> dict[str, Any]:
    """Return a message event of room version 11 with this size."""
    event: dict[str, Any] = {
        "auth_events": [_event_id(number) for number in range(3)],
        "content": {"body": "", "msgtype": "m.text"},
        "depth": 4711,
        "hashes": {"sha256": _base64(sha256(b"content").digest())},
        "origin_server_ts": 1_767_225_600_123,
        "prev_events": [_event_id(3)],
        "room_id": "!agent-federation-default:kitchen.local",
        "sender": "@worker-1:kitchen.local",
        "signatures": {"kitchen.local": {"ed25519:a_1": _base64(sha512(b"event").digest())}},
        "type": "m.room.message",
    }
    missing = size - len(canonical(event))
    assert missing >= 0, f"the smallest message has {size - missing} bytes"
    event["content"]["body"] = ("Scale set to 4.2 kg; next reading at noon. " * (missing // 40 + 1))[:missing]
    return event


def canonical(value: dict[str, Any]) -> bytes:
    """Return canonical JSON by the reference library, so that the size does not depend on the measured
    code."""
    encoded: bytes = encode_canonical_json(value)
    return encoded
