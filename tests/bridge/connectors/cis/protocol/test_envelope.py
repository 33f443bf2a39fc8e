"""The single event of published nodes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.connectors.cis.protocol import envelope
from bridge.connectors.cis.protocol.envelope import MAX_BODY, Envelope, MalformedEvent
from bridge.connectors.cis.protocol.refusals import InvalidPayload, TooLarge
from tests.bridge.connectors.cis.samples import HONEST, nested

EVENT: dict[str, Any] = {
    "event_id": "$0b6d2c9e-4f0a-4b57-9d1e-2a3b4c5d6e7f",
    "room_id": "!agent-federation-default:kitchen.local",
    "sender": "@worker-1:kitchen.local",
    "type": "io.cis.agent.heartbeat",
    "content": {"event_type": "io.cis.agent.heartbeat", "payload": {"status": "idle"}},
    "origin_server_ts": 1_771_000_000_000,
}
FULL: dict[str, Any] = {
    **EVENT,
    "unsigned": {"age": 1},
    "state_key": "",
    "origin": "kitchen.local",
    "signatures": {"kitchen.local": {"ed25519:0": "00"}},
    "hashes": {"sha256": "00"},
}


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


def read(value: Any) -> Envelope:
    made = envelope.read(body(value))
    assert isinstance(made, Envelope), made
    return made


@pytest.mark.parametrize("event", [EVENT, FULL])
def test_an_envelope_survives_a_round_trip(event: dict[str, Any]) -> None:
    """Missing fields are left out, as published nodes do."""
    made = read(event)
    assert json.loads(envelope.write(made)) == event
    assert made.content == event["content"]
    nulls = {name: None for name in FULL if name not in EVENT}
    assert read({**EVENT, **nulls}) == read(EVENT)
    assert read({**event, "extra": 1}) == made


def test_the_sender_s_domain_begins_at_the_first_colon() -> None:
    """The domain may have a port."""
    assert read({**EVENT, "sender": "@a:host:7676"}).sender_domain == "host:7676"
    assert read({**EVENT, "sender": "@:host"}).sender_domain == "host"


@pytest.mark.parametrize("name", EVENT)
def test_required_fields(name: str) -> None:
    """A missing field, or a field of the wrong type, is named."""
    missing = envelope.read(body({key: EVENT[key] for key in EVENT if key != name}))
    assert isinstance(missing, MalformedEvent)
    assert missing.refusal == InvalidPayload(name, "is missing")
    assert missing.event_id == ("" if name == "event_id" else EVENT["event_id"])
    for wrong in (None, [], True, 1.5):
        refused = envelope.read(body({**EVENT, name: wrong}))
        assert isinstance(refused, MalformedEvent)
        assert isinstance(refused.refusal, InvalidPayload)
        assert refused.refusal.field == name


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"event_id": "abc"}, "event_id is not an event id"),
        ({"event_id": "$" + "x" * 255}, "event_id is longer than 255 bytes"),
        ({"room_id": "!" + "x" * 255}, "room_id is longer than 255 bytes"),
        ({"sender": "worker-1@kitchen.local"}, "sender is not a user id, as in @worker-1:kitchen.local"),
        ({"sender": "@worker-1"}, "sender is not a user id, as in @worker-1:kitchen.local"),
        ({"sender": "@worker-1:"}, "sender is not a user id, as in @worker-1:kitchen.local"),
        ({"origin_server_ts": -1}, "origin_server_ts is not a time in milliseconds"),
        ({"origin_server_ts": 2**53}, "origin_server_ts is not a time in milliseconds"),
        ({"origin_server_ts": 2**64}, "origin_server_ts is a number that is too large"),
        ({"origin": 1}, "origin is not a string of at most 255 bytes"),
        ({"state_key": {}}, "state_key is not a string of at most 255 bytes"),
        ({"hashes": []}, "hashes is not an object of strings"),
        ({"hashes": {"sha256": 1}}, "hashes is not an object of strings"),
        ({"signatures": []}, "signatures is not an object of objects of strings"),
        ({"signatures": {"a": None}}, "signatures is not an object of objects of strings"),
        ({"signatures": {"a": {"b": 1}}}, "signatures is not an object of objects of strings"),
        ({"content": {"a": "\0"}}, "content.a holds NUL"),
        ({"unsigned": {"a": "\0"}}, "unsigned.a holds NUL"),
        ({"content": nested(102)}, "content is nested deeper than 101 levels"),
    ],
)
def test_invalid_values_are_refused(change: dict[str, Any], problem: str) -> None:
    """A value of the wrong type, or one that cannot be stored."""
    refused = envelope.read(body({**EVENT, **change}))
    assert isinstance(refused, MalformedEvent)
    assert str(refused.refusal) == f"INVALID_PAYLOAD: {problem}."


@pytest.mark.parametrize("bytes_", [b"", b"{", b"\xff", b'"\\ud800"', b"NaN", b"[" * 5000, b"1" * 5000])
def test_a_body_that_is_no_json_object(bytes_: bytes) -> None:
    """It is refused."""
    refused = envelope.read(bytes_)
    assert isinstance(refused, MalformedEvent)
    assert isinstance(refused.refusal, InvalidPayload)
    assert (refused.refusal.field, refused.event_id) == ("body", "")
    assert envelope.read(b"[]") == MalformedEvent(InvalidPayload("body", "is not an object"))


def test_a_body_above_the_limit() -> None:
    """Published nodes accept two megabytes."""
    assert isinstance(envelope.read(b" " * MAX_BODY), MalformedEvent)
    assert envelope.read(b" " * (MAX_BODY + 1)) == MalformedEvent(TooLarge("The event is too large."))


@given(st.dictionaries(st.sampled_from(sorted(FULL)), HONEST, max_size=3))
def test_any_value_is_read_or_refused(changes: dict[str, Any]) -> None:
    """Reading never raises, and an accepted envelope can be encoded again."""
    made = envelope.read(body({**FULL, **changes}))
    if isinstance(made, Envelope):
        assert envelope.read(envelope.write(made)) == made


@given(st.binary(max_size=50))
def test_any_bytes_are_read_or_refused(bytes_: bytes) -> None:
    """Reading never raises."""
    assert isinstance(envelope.read(bytes_), MalformedEvent)
