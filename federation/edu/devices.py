"""EDUs that must not be lost: messages to devices, and what changed about devices and their keys."""

from collections.abc import Mapping
from typing import Any

from federation.canonical_json import NotCanonical, encode
from federation.edu.fields import (
    Unreadable,
    integer_in,
    is_natural,
    optional_object,
    text_in,
    user_of,
)
from federation.edu.limits import MAX_TO_DEVICE_BYTES
from federation.edu.values import DeviceListUpdate, SigningKeyUpdate, ToDevice
from federation.identifiers import is_user_id


def read_device_list_update(content: Mapping[str, Any], origin: str) -> DeviceListUpdate:
    # `m.device_list_update`: "device_id: Required. stream_id: Required. An ID sent by the server for this
    # update, unique for a given user_id. […] prev_id: The stream_ids of any prior m.device_list_update EDUs
    # sent for this user which have not been referred to already in an EDU's prev_id field."
    prev_ids = content.get("prev_id", [])
    name = content.get("device_display_name")
    return DeviceListUpdate(
        user_of(origin, content, "user_id"),
        text_in(content, "device_id"),
        integer_in(content, "stream_id"),
        tuple(prev for prev in prev_ids if is_natural(prev)) if isinstance(prev_ids, list) else (),
        content.get("deleted") is True,
        name if isinstance(name, str) else None,
        optional_object(content, "keys"),
    )


def read_to_device(content: Mapping[str, Any], origin: str) -> ToDevice:
    # `m.direct_to_device`: "sender: Required. User ID of the sender. type: Required. Event type for the
    # message. message_id: Required. Unique ID for the message, used for idempotence."
    messages = content.get("messages")
    if not isinstance(messages, dict) or not all(
        is_user_id(user)
        and isinstance(devices, dict)
        and all("\0" not in device and isinstance(message, dict) for device, message in devices.items())
        for user, devices in messages.items()
    ):
        raise Unreadable("messages are not objects by user and device")
    try:
        size = len(encode(messages, strict=False))
    except NotCanonical as not_canonical:
        raise Unreadable("messages have no canonical form") from not_canonical
    if size > MAX_TO_DEVICE_BYTES:
        raise Unreadable(f"messages are larger than {MAX_TO_DEVICE_BYTES} bytes")
    return ToDevice(
        user_of(origin, content, "sender"), text_in(content, "type"), text_in(content, "message_id"), messages
    )


def read_signing_key_update(content: Mapping[str, Any], origin: str) -> SigningKeyUpdate:
    # `m.signing_key_update`: "user_id: Required. The user ID whose cross-signing keys have changed."
    return SigningKeyUpdate(
        user_of(origin, content, "user_id"),
        optional_object(content, "master_key"),
        optional_object(content, "self_signing_key"),
    )
