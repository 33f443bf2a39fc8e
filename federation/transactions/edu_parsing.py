"""Parses the EDUs of a transaction and applies the server ACLs of rooms to them.

Of an EDU with several entries (receipts, presence) an invalid entry is left out and the others stay. Any
other EDU with an invalid required field is dropped as a whole.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from federation.matrix.canonical_json import NotCanonical, encode
from federation.matrix.identifiers import has_valid_length, is_room_id, is_user_id
from federation.rooms.server_acl import ServerAcl
from federation.transactions.edus import (
    MAX_PRESENCES,
    MAX_RECEIPTS,
    MAX_STATUS_BYTES,
    MAX_TO_DEVICE_BYTES,
    CustomEdu,
    DeviceListUpdate,
    Edu,
    InvalidEdu,
    Presence,
    Receipt,
    Receipts,
    SigningKeyUpdate,
    ToDevice,
    Typing,
    UserPresence,
    is_event_id_text,
    is_natural,
    is_user_of,
    optional_object,
    require_integer,
    require_room_id,
    require_text,
    require_user,
)

_STATES: Final = frozenset({"online", "unavailable", "offline"})


def parse_typing(content: Mapping[str, Any], origin: str) -> Typing:
    # `m.typing`: "room_id: Required. The room where the user's typing status has been updated. typing:
    # Required. Whether the user is typing in the room or not. user_id: Required."
    typing = content.get("typing")
    if not isinstance(typing, bool):
        raise InvalidEdu("typing is not a boolean")
    return Typing(require_room_id(content, "room_id"), require_user(origin, content, "user_id"), typing)


def parse_receipts(content: Mapping[str, Any], origin: str) -> Receipts:
    # `m.receipt`: room id → `m.read` → user id → {data: {ts, thread_id?}, event_ids: [id]}.
    return Receipts(tuple(islice(_receipts(content, origin), MAX_RECEIPTS)))


def _receipts(content: Mapping[str, Any], origin: str) -> Iterator[Receipt]:
    for room_id, by_type in content.items():
        # "m.read: Required. Read receipts for users in the room." Other types are not federated. In
        # particular, a server must not send `m.read.private`; if it does, it is ignored.
        by_user = by_type.get("m.read") if isinstance(by_type, dict) else None
        if not is_room_id(room_id) or not isinstance(by_user, dict):
            continue
        for user_id, read in by_user.items():
            receipt = _receipt(room_id, user_id, read) if is_user_of(origin, user_id) else None
            if receipt is not None:
                yield receipt


def _receipt(room_id: str, user_id: str, read: object) -> Receipt | None:
    if not isinstance(read, dict):
        return None
    data, event_ids = read.get("data"), read.get("event_ids")
    # "event_ids: The extremity event IDs that the user has read up to." In practice there is exactly one.
    if not isinstance(data, dict) or not isinstance(event_ids, list) or not event_ids:
        return None
    thread_id = data.get("thread_id")
    if not is_event_id_text(event_ids[-1]) or not is_natural(data.get("ts")):
        return None
    if thread_id is not None and not (thread_id == "main" or is_event_id_text(thread_id)):
        return None
    return Receipt(room_id, user_id, event_ids[-1], data["ts"], thread_id)


def parse_presence(content: Mapping[str, Any], origin: str) -> Presence:
    # `m.presence`: "push: Required. A list of presence updates that the receiving server is likely to be
    # interested in."
    push = content.get("push")
    if not isinstance(push, list):
        raise InvalidEdu("push is not a list")
    read = (_presence(update, origin) for update in push[:MAX_PRESENCES])
    return Presence(tuple(user for user in read if user is not None))


def _presence(update: object, origin: str) -> UserPresence | None:
    if not isinstance(update, dict) or not is_user_of(origin, update.get("user_id")):
        return None
    presence, ago, status = (update.get(name) for name in ("presence", "last_active_ago", "status_msg"))
    if not isinstance(presence, str) or presence not in _STATES:
        return None
    return UserPresence(
        update["user_id"],
        presence,
        ago if is_natural(ago) else None,
        update.get("currently_active") is True,
        status if _is_status(status) else None,
    )


def _is_status(status: object) -> bool:
    return (
        isinstance(status, str)
        and "\0" not in status
        and (has_valid_length(status) or len(status.encode("utf-8", "surrogatepass")) <= MAX_STATUS_BYTES)
    )


def parse_device_list_update(content: Mapping[str, Any], origin: str) -> DeviceListUpdate:
    # `m.device_list_update`: "device_id: Required. stream_id: Required. An ID sent by the server for this
    # update, unique for a given user_id. […] prev_id: The stream_ids of any prior m.device_list_update EDUs
    # sent for this user which have not been referred to already in an EDU's prev_id field."
    prev_ids = content.get("prev_id", [])
    name = content.get("device_display_name")
    return DeviceListUpdate(
        require_user(origin, content, "user_id"),
        require_text(content, "device_id"),
        require_integer(content, "stream_id"),
        tuple(prev for prev in prev_ids if is_natural(prev)) if isinstance(prev_ids, list) else (),
        content.get("deleted") is True,
        name if isinstance(name, str) else None,
        optional_object(content, "keys"),
    )


def parse_to_device(content: Mapping[str, Any], origin: str) -> ToDevice:
    # `m.direct_to_device`: "sender: Required. User ID of the sender. type: Required. Event type for the
    # message. message_id: Required. Unique ID for the message, used for idempotence."
    messages = content.get("messages")
    if not isinstance(messages, dict) or not all(
        is_user_id(user)
        and isinstance(devices, dict)
        and all("\0" not in device and isinstance(message, dict) for device, message in devices.items())
        for user, devices in messages.items()
    ):
        raise InvalidEdu("messages does not map users and devices to objects")
    try:
        size = len(encode(messages, strict=False))
    except NotCanonical as not_canonical:
        raise InvalidEdu("messages cannot be encoded as canonical JSON") from not_canonical
    if size > MAX_TO_DEVICE_BYTES:
        raise InvalidEdu(f"messages are larger than {MAX_TO_DEVICE_BYTES} bytes")
    return ToDevice(
        require_user(origin, content, "sender"),
        require_text(content, "type"),
        require_text(content, "message_id"),
        messages,
    )


def parse_signing_key_update(content: Mapping[str, Any], origin: str) -> SigningKeyUpdate:
    # `m.signing_key_update`: "user_id: Required. The user ID whose cross-signing keys have changed."
    return SigningKeyUpdate(
        require_user(origin, content, "user_id"),
        optional_object(content, "master_key"),
        optional_object(content, "self_signing_key"),
    )


@dataclass(frozen=True, slots=True)
class MalformedEdu:
    """An EDU that is invalid or that its sender may not send. It is ignored; the rest of the transaction is
    processed."""

    edu_type: str
    problem: str


_PARSERS: Final[Mapping[str, Callable[[Mapping[str, Any], str], Edu]]] = {
    "m.typing": parse_typing,
    "m.receipt": parse_receipts,
    "m.presence": parse_presence,
    "m.device_list_update": parse_device_list_update,
    "m.direct_to_device": parse_to_device,
    "m.signing_key_update": parse_signing_key_update,
}


def parse_edu(edu: object, origin: str) -> Edu | MalformedEdu:
    """Parse `{"edu_type", "content"}` sent by the server `origin`. A type that the specification does not
    define gives a `CustomEdu`, which is passed to the listeners for that type."""
    if not isinstance(edu, dict):
        return MalformedEdu("", "an EDU must be an object")
    edu_type, content = edu.get("edu_type"), edu.get("content")
    if not isinstance(edu_type, str) or not has_valid_length(edu_type) or not isinstance(content, dict):
        return MalformedEdu("", "an EDU must have an edu_type and a content")
    reader = _PARSERS.get(edu_type)
    if reader is None:
        return CustomEdu(edu_type, content)
    try:
        return reader(content, origin)
    except InvalidEdu as why:
        return MalformedEdu(edu_type, str(why))


def rooms_of(edu: Edu) -> frozenset[str]:
    """Return the rooms whose server ACLs apply to the EDU."""
    if isinstance(edu, Typing):
        return frozenset((edu.room_id,))
    if isinstance(edu, Receipts):
        return frozenset(receipt.room_id for receipt in edu.receipts)
    return frozenset()


def apply_server_acls(edu: Edu, origin: str, acls: Mapping[str, ServerAcl]) -> Edu | None:
    """Return the part of the EDU that the server ACLs of its rooms allow, or None if they allow nothing.

    `acls` holds the ACL of each room in `rooms_of(edu)` that this server knows. Entries about other rooms are
    dropped.

    Server-server API, "Server Access Control Lists": "For typing notifications (m.typing), the room_id field
    inside content should be checked, with the typing notification ignored if the origin of the request is
    denied access to the room. Ignoring the typing notification in this scenario MUST NOT affect other EDUs
    being sent in the transaction. For read receipts (m.receipt), all receipts inside a room should be ignored
    if the origin of the request is denied access to that room."
    """
    allowed = {room_id for room_id in rooms_of(edu) if room_id in acls and acls[room_id].allows(origin)}
    if isinstance(edu, Typing):
        return edu if edu.room_id in allowed else None
    if isinstance(edu, Receipts):
        left = tuple(receipt for receipt in edu.receipts if receipt.room_id in allowed)
        return replace(edu, receipts=left) if left else None
    return edu
