"""Policy servers of rooms, and their signatures."""

from typing import Any

import pytest

from federation.events import Pdu, parse
from federation.events.event_signatures import add_signature
from federation.matrix.signatures import encode_base64
from federation.rooms.policy_server import (
    KEY_ID,
    PolicyServer,
    is_signed,
    needs_signature,
    parse_policy_server,
    with_policy_signature,
)
from tests.support.rooms import ALICE, BOB, Room, public_room, signer

SIGNER = signer("policy.example")
PUBLIC = bytes(SIGNER.key.verify_key)
SERVER = PolicyServer("policy.example", PUBLIC)
CONTENT = {"via": "policy.example", "public_keys": {"ed25519": encode_base64(PUBLIC)}}


def policy_event(content: dict[str, Any]) -> Pdu:
    return public_room("12").send("m.room.policy", ALICE, content, "")


def signed(room: Room, pdu: Pdu, key_id: str = KEY_ID) -> dict[str, Any]:
    return add_signature(pdu.event, room.version, "policy.example", key_id, SIGNER.key)


def test_a_room_names_its_policy_server() -> None:
    """With its public key."""
    assert parse_policy_server(policy_event(CONTENT)) == SERVER


@pytest.mark.parametrize(
    "content",
    [
        {},
        {**CONTENT, "via": 5},
        {**CONTENT, "via": "no server name"},
        {**CONTENT, "public_keys": []},
        {**CONTENT, "public_keys": {"ed25519": "AAAA"}},
    ],
)
def test_an_invalid_policy_event_is_ignored(content: dict[str, Any]) -> None:
    """Otherwise a mistake would stop all events of the room."""
    assert parse_policy_server(policy_event(content)) is None


def test_the_signature_must_be_by_the_rooms_key() -> None:
    """Other keys of the same server are not accepted."""
    room = public_room("12", BOB)
    message = room.say(BOB)
    assert not is_signed(message, room.version, SERVER)
    for key_id, holds in ((KEY_ID, True), ("ed25519:test", False)):
        parsed = parse(signed(room, message, key_id), room.version)
        assert isinstance(parsed, Pdu)
        assert is_signed(parsed, room.version, SERVER) == holds
        assert not is_signed(parsed, room.version, PolicyServer("policy.example", b"\0" * 32))


def test_the_policy_event_needs_no_signature() -> None:
    """A room must be able to remove its policy server."""
    room = public_room("12", BOB)
    assert not needs_signature(policy_event(CONTENT))
    assert needs_signature(room.say(BOB))


def test_the_signature_of_a_response_is_added() -> None:
    """Our signature stays. Everything else in the response is ignored."""
    room = public_room("12", BOB)
    message = room.say(BOB)
    made = signed(room, message)["signatures"]["policy.example"]
    event = with_policy_signature(message.event, SERVER, {"policy.example": {**made, "x": 1}, "b.example": {}})
    assert event == signed(room, message)
    for answer in (None, {}, {"policy.example": 5}, {"policy.example": {KEY_ID: 5}}):
        assert with_policy_signature(message.event, SERVER, answer) is None
