"""Messages to devices, and what changed about devices and keys."""

from typing import Any

import pytest

from federation.transactions.edu_reading import Malformed, read
from federation.transactions.edu_values import DeviceListUpdate, SigningKeyUpdate, ToDevice

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


def test_a_device_list_update() -> None:
    """Only user, device and stream id are required."""
    assert read(edu("m.device_list_update", UPDATE), ORIGIN) == DeviceListUpdate(
        BOB, "D", 3, (), False, None, None
    )
    full = {
        **UPDATE,
        "prev_id": [1, "x", 2],
        "deleted": True,
        "device_display_name": "phone",
        "keys": {"k": 1},
    }
    assert read(edu("m.device_list_update", full), ORIGIN) == DeviceListUpdate(
        BOB, "D", 3, (1, 2), True, "phone", {"k": 1}
    )


@pytest.mark.parametrize("change", [{"user_id": ALICE}, {"device_id": None}, {"stream_id": "3"}])
def test_a_device_list_update_that_is_none(change: dict[str, Any]) -> None:
    """Of another server's user, or without what is required."""
    assert isinstance(read(edu("m.device_list_update", {**UPDATE, **change}), ORIGIN), Malformed)


def test_a_message_to_devices() -> None:
    """Its messages are kept as they are."""
    assert read(edu("m.direct_to_device", MESSAGE), ORIGIN) == ToDevice(
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
def test_a_message_to_devices_that_is_none(change: dict[str, Any]) -> None:
    """One larger than an event is ignored: refused, it would block the queue of its sender."""
    assert isinstance(read(edu("m.direct_to_device", {**MESSAGE, **change}), ORIGIN), Malformed)


def test_new_signing_keys() -> None:
    """The keys are kept as they are, where they are objects."""
    content = {"user_id": BOB, "master_key": {"k": 1}, "self_signing_key": 1}
    assert read(edu("m.signing_key_update", content), ORIGIN) == SigningKeyUpdate(BOB, {"k": 1}, None)
    assert isinstance(read(edu("m.signing_key_update", {"user_id": ALICE}), ORIGIN), Malformed)
