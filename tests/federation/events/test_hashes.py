"""Content hash, reference hash and event id (server-server API, "Signing Events")."""

from typing import Any

import pytest

from federation.events import hashes
from federation.events.redaction import redact
from federation.matrix.room_version import ROOM_VERSIONS
from federation.matrix.signatures import decode_base64, encode_base64

EVENT: dict[str, Any] = {
    "type": "m.room.message",
    "room_id": "!r:a.example",
    "sender": "@alice:a.example",
    "content": {"body": "hello"},
    "depth": 3,
    "prev_events": ["$p"],
    "auth_events": ["$a"],
    "origin_server_ts": 5,
}


def test_the_content_hash_ignores_unsigned_signatures_and_hashes() -> None:
    version = ROOM_VERSIONS["12"]
    plain = hashes.content_hash(EVENT, version)
    assert hashes.content_hash({**EVENT, "unsigned": {"age": 1}, "signatures": {}, "hashes": {}}, version) == plain
    assert hashes.content_hash({**EVENT, "depth": 4}, version) != plain
    assert hashes.content_hash({**EVENT, "content": {"body": "hallo"}}, version) != plain


def test_checking_the_content_hash() -> None:
    """With or without padding, in either alphabet; a malformed hash is wrong and raises nothing."""
    version = ROOM_VERSIONS["12"]
    right = encode_base64(hashes.content_hash(EVENT, version))
    for claimed in (right, right + "=", right.replace("+", "-").replace("/", "_")):
        assert hashes.is_content_hash_valid({**EVENT, "hashes": {"sha256": claimed}}, version)
    wrong: Any
    for wrong in ("", "abc", right[:-2], "é", None, 3, []):
        assert not hashes.is_content_hash_valid({**EVENT, "hashes": {"sha256": wrong}}, version)
    for wrong in (None, [], "x", {}):
        assert not hashes.is_content_hash_valid({**EVENT, "hashes": wrong}, version)


@pytest.mark.parametrize("version", ROOM_VERSIONS.values(), ids=lambda version: version.id)
def test_the_event_id_is_that_of_the_redacted_event(version: Any) -> None:
    """It does not depend on removed properties and signatures, but on everything that redaction keeps."""
    event = {**EVENT, "hashes": {"sha256": "x"}, "signatures": {}}
    name = hashes.event_id(event, version)
    assert name == hashes.event_id(redact(event, version), version)
    assert name == hashes.event_id({**event, "signatures": {"a": {"b": "c"}}, "unsigned": {"age": 1}}, version)
    assert name == hashes.event_id_of(hashes.signed_bytes(event, version), version)
    assert name != hashes.event_id({**event, "origin_server_ts": 6}, version)
    assert name != hashes.event_id({**event, "hashes": {"sha256": "y"}}, version)
    assert name.startswith("$")
    assert len(decode_base64(name[1:]) or b"") == 32


def test_the_alphabet_of_event_ids() -> None:
    """Room version 3 uses standard base64, later ones URL-safe base64."""
    events = [{**EVENT, "depth": depth} for depth in range(50)]
    third = [hashes.event_id(event, ROOM_VERSIONS["3"]) for event in events]
    fourth = [hashes.event_id(event, ROOM_VERSIONS["4"]) for event in events]
    assert any("/" in name or "+" in name for name in third)
    assert [name.replace("+", "-").replace("/", "_") for name in third] == fourth


def test_floats_in_old_rooms() -> None:
    """Room versions 3 to 5 hash a float in the form in which Python writes it."""
    event = {**EVENT, "content": {"huge": 2**70, "float": 1e16}}
    for version in ("3", "4", "5"):
        assert b'"float":1e+16' in hashes.canonical(event, ROOM_VERSIONS[version])
        assert hashes.content_hash(event, ROOM_VERSIONS[version])
