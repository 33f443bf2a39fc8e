"""Parsing of to-device messages, device list updates and signing key updates."""

from typing import Any

import pytest

from federation.transactions.edu_parsing import MalformedEdu, parse_edu
from federation.transactions.edus import DeviceListUpdate, SigningKeyUpdate, ToDevice

ORIGIN = "b.example"
BOB, ALICE = "@bob:b.example", "@alice:a.example"
UPDATE: dict[str, Any] = {"user_id": BOB, "device_id": "D", "stream_id": 3}
MESSAGE: dict[str, Any] = {
    "sender": BOB,
    "type": "m.room_key_request",
    "message_id": "m1",
    "messages": {ALICE: {"*": {"body": "x"}}},
}


def edu(edu_type: str, content: Any) -> dict[str, Any]:
    return {"edu_type": edu_type, "content": content}


def test_a_device_list_update_is_parsed() -> None:
    """Only user, device and stream id are required."""
    assert parse_edu(edu("m.device_list_update", UPDATE), ORIGIN) == DeviceListUpdate(
        BOB, "D", 3, (), False, None, None
    )
    full = {**UPDATE, "prev_id": [1, "x", 2], "deleted": True, "device_display_name": "phone", "keys": {"k": 1}}
    assert parse_edu(edu("m.device_list_update", full), ORIGIN) == DeviceListUpdate(
        BOB, "D", 3, (1, 2), True, "phone", {"k": 1}
    )


@pytest.mark.parametrize("change", [{"user_id": ALICE}, {"device_id": None}, {"stream_id": "3"}])
def test_an_invalid_device_list_update_is_malformed(change: dict[str, Any]) -> None:
    """The user must belong to the sending server, and the required fields must be present."""
    assert isinstance(parse_edu(edu("m.device_list_update", {**UPDATE, **change}), ORIGIN), MalformedEdu)


def test_a_to_device_message_is_parsed() -> None:
    """Its messages are kept unchanged."""
    assert parse_edu(edu("m.direct_to_device", MESSAGE), ORIGIN) == ToDevice(
        BOB, "m.room_key_request", "m1", {ALICE: {"*": {"body": "x"}}}
    )


@pytest.mark.parametrize(
    "change",
    [
        {"sender": ALICE},
        {"type": None},
        {"message_id": 1},
        {"message_id": "x" * 256},
        {"messages": []},
        {"messages": {"alice": {}}},
        {"messages": {ALICE: []}},
        {"messages": {ALICE: {"*": "x"}}},
        {"messages": {ALICE: {"a\0": {}}}},
        {"messages": {ALICE: {"*": {"body": "x" * 65_536}}}},
        {"messages": {ALICE: {"*": {"body": float("nan")}}}},
    ],
)
def test_an_invalid_to_device_message_is_malformed(change: dict[str, Any]) -> None:
    """This includes a message larger than an event: receivers would refuse it, and it would block the
    queue."""
    assert isinstance(parse_edu(edu("m.direct_to_device", {**MESSAGE, **change}), ORIGIN), MalformedEdu)


def test_a_signing_key_update_is_parsed() -> None:
    """Keys that are objects are kept unchanged; others count as missing."""
    content = {"user_id": BOB, "master_key": {"k": 1}, "self_signing_key": 1}
    assert parse_edu(edu("m.signing_key_update", content), ORIGIN) == SigningKeyUpdate(BOB, {"k": 1}, None)
    assert isinstance(parse_edu(edu("m.signing_key_update", {"user_id": ALICE}), ORIGIN), MalformedEdu)
