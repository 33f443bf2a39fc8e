"""Building local events."""

from typing import Any

import pytest

from federation.events import BuildFailure, Pdu, Template, build
from federation.events.builder import depth_after, sign_event, unsigned_event
from federation.events.event_signatures import verify_event
from federation.events.format import MAX_DEPTH, MAX_OWN_CONTENT_BYTES
from federation.events.hashes import is_content_hash_valid
from federation.matrix.room_version import ROOM_VERSIONS
from federation.matrix.signatures import Verified
from tests.support.rooms import signer, verify_keys

A = "a.example"


def template(**changes: Any) -> Template:
    made = {
        "type": "m.room.message",
        "sender": f"@alice:{A}",
        "content": {"body": "x"},
        "origin_server_ts": 1000,
        "room_id": f"!r:{A}",
        "prev_events": ["$p"],
        "prev_depths": [3],
        "auth_events": ["$a"],
    }
    return Template(**{**made, **changes})


@pytest.mark.parametrize("version", ROOM_VERSIONS.values(), ids=lambda version: version.id)
def test_a_built_event_passes_the_checks(version: Any) -> None:
    """It is hashed, signed and well-formed."""
    pdu = build(template(state_key=""), version, signer(A))
    assert isinstance(pdu, Pdu)
    assert is_content_hash_valid(pdu.event, version)
    assert verify_event(pdu, version, verify_keys(A), 0) == Verified()
    assert (pdu.depth, pdu.prev_events, pdu.auth_events) == (4, ("$p",), ("$a",))


@pytest.mark.parametrize("version", ROOM_VERSIONS.values(), ids=lambda version: version.id)
def test_the_target_of_a_redaction(version: Any) -> None:
    """In the content, where room versions from 11 on have it, and at the top level, where it was before and
    where some homeservers still look for it."""
    content = {"reason": "y"}
    pdu = build(template(type="m.room.redaction", redacts="$x", content=content), version, signer(A))
    assert isinstance(pdu, Pdu)
    assert pdu.redacts(version) == "$x"
    assert pdu.event["redacts"] == pdu.event["content"]["redacts"] == "$x"
    assert content == {"reason": "y"}


def test_the_create_event_of_version_12_defines_the_room_id() -> None:
    """It has no room id; the room id is derived from its event id."""
    made = template(type="m.room.create", room_id=None, state_key="", prev_events=[], prev_depths=[], auth_events=[])
    pdu = build(made, ROOM_VERSIONS["12"], signer(A))
    assert isinstance(pdu, Pdu)
    assert pdu.room_id == "!" + pdu.event_id[1:]
    assert pdu.depth == 1
    assert isinstance(build(made, ROOM_VERSIONS["11"], signer(A)), BuildFailure)


@pytest.mark.parametrize(
    "changes",
    [
        {"content": {"body": "x" * MAX_OWN_CONTENT_BYTES}},
        {"content": {"n": 1.5}},
        {"content": {"n": 2**53}},
        {"content": {"n": float("nan")}},
        {"content": {"body": "\ud800"}},
        {"content": {"body": object()}},
        {"prev_events": [f"${number}" for number in range(11)]},
        {"auth_events": [f"${number}" for number in range(11)]},
        {"state_key": "x" * 256},
        {"state_key": "\ud800"},
        {"type": "é" * 128},
        {"sender": "alice"},
        {"origin_server_ts": 2**60},
    ],
)
def test_build_failures(changes: dict[str, Any]) -> None:
    """Events that this server would not accept are not sent; the client gets the reason."""
    for version in ("6", "10", "12"):
        assert isinstance(build(template(**changes), ROOM_VERSIONS[version], signer(A)), BuildFailure)


def test_depth() -> None:
    """One more than the greatest depth of the `prev_events`, at most the limit."""
    assert depth_after([]) == 1
    assert depth_after([3, 7, 5]) == 8
    assert depth_after([MAX_DEPTH]) == depth_after([MAX_DEPTH - 1]) == MAX_DEPTH
    assert depth_after([2**63 - 1]) == MAX_DEPTH


def test_signing_the_template_of_a_resident_server() -> None:
    """Its hashes, signatures and `unsigned` are replaced; an invalid template is refused without raising."""
    version = ROOM_VERSIONS["12"]
    event = unsigned_event(template())
    rubbish = {"hashes": "x", "signatures": {"b.example": 3}, "unsigned": {"a": 1}}
    pdu = sign_event({**event, **rubbish}, version, signer(A))
    assert isinstance(pdu, Pdu)
    assert set(pdu.signatures) == {A}
    change: dict[str, Any]
    for change in ({"depth": "x"}, {"content": []}, {"prev_events": None}, {"content": {"a": 1.5}}, {"sender": 3}):
        assert isinstance(sign_event({**event, **change}, version, signer(A)), BuildFailure)
