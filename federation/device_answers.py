"""What another server says of the devices of its users. Server-server API, "Device Management" and
"End-to-End Encryption".

Each key is signed by its device or its user, and whoever encrypts with it checks that; here only its form is
looked at, and that it says to be of whom it was asked for. What does not is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from federation.canonical_json import NotCanonical, encode
from federation.identifiers import fits

MOST_DEVICES: Final = 1_000
"""Of one user."""
LARGEST_KEY: Final = 64 * 1024
"""Bytes of one device's keys, or of one key, as canonical JSON."""

_LAST: Final = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Device:
    """`keys` is None where the device has not published any."""

    device_id: str
    keys: Mapping[str, Any] | None
    display_name: str | None = None


@dataclass(frozen=True, slots=True)
class UserDevices:
    """`stream_id` is the number that the list had, and that its next change refers to."""

    user_id: str
    stream_id: int
    devices: tuple[Device, ...]
    master_key: Mapping[str, Any] | None = None
    self_signing_key: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class DeviceKeys:
    """By user, `devices` by user and device. A user of whom nothing is said is in none of them."""

    devices: Mapping[str, Mapping[str, Mapping[str, Any]]]
    master_keys: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    self_signing_keys: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """What is wrong with it: what comes after the server's name in a sentence."""

    problem: str


def user_devices(answer: Mapping[str, Any], user_id: str) -> UserDevices | NoAnswer:
    """The answer to `GET /user/devices/{userId}`."""
    # "Required: user_id, stream_id, devices."
    if answer.get("user_id") != user_id:
        return NoAnswer(f"answered with the devices of somebody else than {user_id}")
    stream_id, listed = answer.get("stream_id"), answer.get("devices")
    if type(stream_id) is not int or not 0 <= stream_id <= _LAST:
        return NoAnswer("answered with devices without a stream_id")
    if not isinstance(listed, list) or len(listed) > MOST_DEVICES:
        return NoAnswer("answered without a list of devices, or with one that is far too long")
    devices = {one.device_id: one for one in (_device(entry, user_id) for entry in listed) if one is not None}
    return UserDevices(
        user_id,
        stream_id,
        tuple(devices.values()),
        _cross_signing_key(answer.get("master_key"), user_id),
        _cross_signing_key(answer.get("self_signing_key"), user_id),
    )


def device_keys(answer: Mapping[str, Any], asked: Mapping[str, Sequence[str]]) -> DeviceKeys | NoAnswer:
    """The answer to `POST /user/keys/query`."""
    by_user = answer.get("device_keys")
    if not isinstance(by_user, dict):
        return NoAnswer("answered without device_keys")
    devices = {}
    for user_id in asked:
        of_user = by_user.get(user_id)
        if isinstance(of_user, dict) and len(of_user) <= MOST_DEVICES:
            wanted = set(asked[user_id])
            devices[user_id] = {
                device_id: keys
                for device_id, keys in of_user.items()
                if _is_device_id(device_id)
                and (device_id in wanted or not wanted)
                and _are_keys_of(keys, user_id, device_id)
            }
    return DeviceKeys(
        devices,
        _cross_signing(answer, "master_keys", asked),
        _cross_signing(answer, "self_signing_keys", asked),
    )


def claimed_keys(
    answer: Mapping[str, Any], asked: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, Mapping[str, Any]]] | NoAnswer:
    """The answer to `POST /user/keys/claim`: for each device the key of the algorithm that was asked for,
    under `algorithm:id`."""
    by_user = answer.get("one_time_keys")
    if not isinstance(by_user, dict):
        return NoAnswer("answered without one_time_keys")
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for user_id, devices in asked.items():
        of_user = by_user.get(user_id)
        for device_id, algorithm in devices.items():
            keys = of_user.get(device_id) if isinstance(of_user, dict) else None
            # "A map from devices to a map from `<algorithm>:<key_id>` to the key object."
            if isinstance(keys, dict) and len(keys) == 1 and _is_one_time_key(keys, algorithm):
                found.setdefault(user_id, {})[device_id] = keys
    return found


def _device(entry: Any, user_id: str) -> Device | None:
    if not isinstance(entry, dict) or not _is_device_id(entry.get("device_id")):
        return None
    device_id, keys, name = entry["device_id"], entry.get("keys"), entry.get("device_display_name")
    return Device(
        device_id,
        keys if _are_keys_of(keys, user_id, device_id) else None,
        name if isinstance(name, str) and fits(name) and "\0" not in name else None,
    )


def _are_keys_of(keys: Any, user_id: str, device_id: str) -> bool:
    is_theirs = (
        isinstance(keys, dict) and keys.get("user_id") == user_id and keys.get("device_id") == device_id
    )
    return is_theirs and _is_small(keys)


def _cross_signing(
    answer: Mapping[str, Any], name: str, asked: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    by_user = answer.get(name)
    if not isinstance(by_user, dict):
        return {}
    found = {user_id: _cross_signing_key(by_user.get(user_id), user_id) for user_id in asked}
    return {user_id: key for user_id, key in found.items() if key is not None}


def _cross_signing_key(key: Any, user_id: str) -> Mapping[str, Any] | None:
    is_theirs = isinstance(key, dict) and key.get("user_id") == user_id
    return key if is_theirs and _is_small(key) else None


def _is_one_time_key(keys: Mapping[str, Any], algorithm: str) -> bool:
    [(key_id, key)] = keys.items()
    return key_id.startswith(f"{algorithm}:") and isinstance(key, str | dict) and _is_small(keys)


def _is_small(value: Mapping[str, Any]) -> bool:
    """And can be written down: what cannot, nobody can have signed."""
    try:
        return len(encode(dict(value))) <= LARGEST_KEY
    except NotCanonical:
        return False


def _is_device_id(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and fits(value) and "\0" not in value
