"""PDUs."""

from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from federation.events import Pdu, create_event_id, parse, redact_pdu
from federation.matrix.room_version import ROOM_VERSIONS


def message(content: dict[str, Any], version: str = "12", **changes: Any) -> Pdu:
    pdu = parse(
        {
            "type": "m.room.message",
            "room_id": "!r:a.example",
            "sender": "@alice:a.example",
            "content": content,
            "depth": 3,
            "prev_events": ["$p"],
            "auth_events": ["$a"],
            "origin_server_ts": 5,
            "hashes": {"sha256": "abcd"},
            "signatures": {"a.example": {"ed25519:1": "x"}},
            **changes,
        },
        ROOM_VERSIONS[version],
    )
    assert isinstance(pdu, Pdu)
    return pdu


def test_a_pdu_is_immutable() -> None:
    """It is shared by all readers."""
    pdu = message({"body": "x"})
    with pytest.raises(FrozenInstanceError):
        pdu.depth = 4  # type: ignore[misc]  # the test expects the error
    with pytest.raises((AttributeError, TypeError)):
        pdu.anything = 4  # type: ignore[attr-defined]  # the same


def test_pdus_with_the_same_event_id_are_equal() -> None:
    """The event id covers everything that was signed."""
    one, same, other = (message({"body": "x"}), message({"body": "x"}, unsigned={"age": 1}), message({"body": "y"}))
    assert one == same
    assert hash(one) == hash(same)
    # Only the content differs. The content hash, which would differ as well, is invented, so that the
    # redacted forms are equal.
    assert one == other
    assert one != message({"body": "x"}, depth=4)
    assert one != one.event_id


def test_message_and_state_events() -> None:
    """A state event has a state key, a message event has none."""
    assert message({}).key is None
    assert message({}, state_key="").key == ("m.room.message", "")
    assert message({"membership": ["odd"]}).membership == ["odd"]
    assert message({}).membership is None


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_the_target_of_a_redaction(version: str) -> None:
    """From room version 11 on it is in the content, before at the top level; it must be a string."""
    of = ROOM_VERSIONS[version]
    both = message({"redacts": "$content"}, version, type="m.room.redaction", redacts="$top")
    assert both.redacts(of) == ("$content" if of.redacts_in_content else "$top")
    for odd in (3, "", "$", "$a\0", "a", "$" + "a" * 255):
        assert message({"redacts": odd}, version, type="m.room.redaction", redacts=odd).redacts(of) is None
    assert message({}, version, type="m.room.redaction").redacts(of) is None
    assert message({"redacts": "$x"}, version, redacts="$x").redacts(of) is None


@pytest.mark.parametrize("version", ROOM_VERSIONS)
def test_a_redacted_event_keeps_its_id(version: str) -> None:
    """And its position in the graph and its signatures; the content and `unsigned` are removed."""
    pdu = message({"body": "x"}, version, state_key="k", unsigned={"age": 1})
    bare = redact_pdu(pdu, ROOM_VERSIONS[version])
    assert bare == pdu
    assert (bare.key, bare.signatures, bare.auth_events) == (pdu.key, pdu.signatures, pdu.auth_events)
    assert (bare.content, bare.unsigned) == ({}, {})
    assert parse(dict(bare.event), ROOM_VERSIONS[version]) == pdu


def test_the_create_event_of_a_room_id() -> None:
    """Room version 12: the same hash with the other sigil."""
    create = parse(
        {
            "type": "m.room.create",
            "state_key": "",
            "sender": "@alice:a.example",
            "content": {"room_version": "12"},
            "depth": 1,
            "prev_events": [],
            "auth_events": [],
            "origin_server_ts": 5,
            "hashes": {"sha256": "abcd"},
            "signatures": {},
        },
        ROOM_VERSIONS["12"],
    )
    assert isinstance(create, Pdu)
    assert create_event_id(create.room_id) == create.event_id
    assert redact_pdu(create, ROOM_VERSIONS["12"]).room_id == create.room_id
