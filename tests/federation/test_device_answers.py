"""What another server says of its users' devices."""

from typing import Any

import pytest

from federation.device_answers import (
    LARGEST_KEY,
    MOST_DEVICES,
    Device,
    NoAnswer,
    UserDevices,
    claimed_keys,
    device_keys,
    user_devices,
)

ALICE, BOB = "@alice:a.example", "@bob:a.example"


def keys_of(user_id: str, device_id: str, **more: Any) -> dict[str, Any]:
    return {"user_id": user_id, "device_id": device_id, "keys": {f"ed25519:{device_id}": "abc"}, **more}


def master_of(user_id: str) -> dict[str, Any]:
    return {"user_id": user_id, "usage": ["master"], "keys": {"ed25519:x": "x"}}


def devices_answer(*devices: Any, **more: Any) -> dict[str, Any]:
    return {"user_id": ALICE, "stream_id": 5, "devices": list(devices), **more}


def test_the_devices_of_a_user() -> None:
    """With their keys and names, and the keys with which the user vouches for them."""
    answer = devices_answer(
        {"device_id": "A", "keys": keys_of(ALICE, "A"), "device_display_name": "Phone"},
        {"device_id": "B", "keys": keys_of(ALICE, "B")},
        master_key=master_of(ALICE),
        self_signing_key=master_of(ALICE),
    )
    assert user_devices(answer, ALICE) == UserDevices(
        ALICE,
        5,
        (Device("A", keys_of(ALICE, "A"), "Phone"), Device("B", keys_of(ALICE, "B"))),
        master_of(ALICE),
        master_of(ALICE),
    )
    assert user_devices(devices_answer(), ALICE) == UserDevices(ALICE, 5, ())


@pytest.mark.parametrize(
    "answer",
    [
        {},
        devices_answer(user_id=BOB),
        devices_answer(stream_id="5"),
        devices_answer(stream_id=-1),
        devices_answer(stream_id=2**53),
        devices_answer(stream_id=True),
        devices_answer(stream_id=1.5),
        devices_answer(devices={}),
        devices_answer(*[{}] * (MOST_DEVICES + 1)),
    ],
)
def test_what_is_no_list_of_devices(answer: dict[str, Any]) -> None:
    """Somebody else's, without a number, or without end."""
    assert isinstance(user_devices(answer, ALICE), NoAnswer)


def test_a_device_that_is_none_does_not_harm_the_others() -> None:
    """It is left out; keys that are not the device's own are none."""
    good = {"device_id": "A", "keys": keys_of(ALICE, "A")}
    answer = devices_answer(
        "x",
        {},
        {"device_id": ""},
        {"device_id": "\0"},
        {"device_id": "x" * 256},
        {"device_id": "B", "keys": keys_of(BOB, "B"), "device_display_name": 5},
        {"device_id": "C", "keys": keys_of(ALICE, "A")},
        {"device_id": "D", "keys": keys_of(ALICE, "D", much="x" * LARGEST_KEY)},
        {"device_id": "E", "keys": keys_of(ALICE, "E", odd="\ud800")},
        {"device_id": "F", "keys": keys_of(ALICE, "F", odd=1.5)},
        good,
        master_key=master_of(BOB),
        self_signing_key=5,
    )
    read = user_devices(answer, ALICE)
    assert isinstance(read, UserDevices)
    assert {device.device_id: device.keys is not None for device in read.devices} == {
        **dict.fromkeys("BCDEF", False),
        "A": True,
    }
    assert (read.master_key, read.self_signing_key) == (None, None)


def test_keys_of_devices_that_were_asked_for() -> None:
    """No others, whatever else is told; all of a user of whom all were asked for."""
    answer = {
        "device_keys": {
            ALICE: {"A": keys_of(ALICE, "A"), "B": keys_of(ALICE, "B"), "C": keys_of(BOB, "C")},
            BOB: {"D": keys_of(BOB, "D"), "E": keys_of(BOB, "E")},
            "@other:a.example": {"F": keys_of("@other:a.example", "F")},
        },
        "master_keys": {ALICE: master_of(ALICE), BOB: master_of(ALICE)},
        "self_signing_keys": {BOB: master_of(BOB), "@other:a.example": {}},
    }
    read = device_keys(answer, {ALICE: [], BOB: ["E", "Z"], "@nobody:a.example": []})
    assert not isinstance(read, NoAnswer)
    assert read.devices == {
        ALICE: {"A": keys_of(ALICE, "A"), "B": keys_of(ALICE, "B")},
        BOB: {"E": keys_of(BOB, "E")},
    }
    assert read.master_keys == {ALICE: master_of(ALICE)}
    assert read.self_signing_keys == {BOB: master_of(BOB)}


@pytest.mark.parametrize("answer", [{}, {"device_keys": []}, {"one_time_keys": None}])
def test_an_answer_without_keys_is_none(answer: dict[str, Any]) -> None:
    """An empty object is one, that says there are none."""
    assert isinstance(device_keys(answer, {ALICE: []}), NoAnswer)
    assert isinstance(claimed_keys(answer, {ALICE: {}}), NoAnswer)
    assert claimed_keys({"one_time_keys": {}}, {ALICE: {"A": "x"}}) == {}


@pytest.mark.parametrize(
    "of_alice", [5, [], {"A": 5}, {str(number): {} for number in range(MOST_DEVICES + 1)}]
)
def test_devices_that_are_none(of_alice: Any) -> None:
    """Of that user nothing is said."""
    read = device_keys({"device_keys": {ALICE: of_alice}, "master_keys": []}, {ALICE: []})
    assert not isinstance(read, NoAnswer)
    assert not any(read.devices.values())


def test_keys_that_were_claimed() -> None:
    """One for a device, of the algorithm that was asked for."""
    key = {"signed_curve25519:AAAB": {"key": "x", "signatures": {}}}
    answer = {
        "one_time_keys": {
            ALICE: {
                "A": key,
                "B": {"curve25519:AAAB": "x"},
                "C": {**key, "signed_curve25519:AAAC": {}},
                "D": {"signed_curve25519:AAAB": 5},
                "E": "x",
                "F": key,
            },
            BOB: [],
        }
    }
    asked = {ALICE: dict.fromkeys("ABCDE", "signed_curve25519"), BOB: {"A": "signed_curve25519"}}
    assert claimed_keys(answer, asked) == {ALICE: {"A": key}}
