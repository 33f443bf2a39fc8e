"""Parses the body of `PUT /_matrix/app/v1/transactions/{txnId}`: events, ephemeral data and to-device
messages.

An invalid entry does not affect the others: a homeserver repeats a refused transaction for ever and would
send nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import Any, Final

from appservice.intake.received_event import ReceivedEvent
from appservice.intake.received_event import read as read_event
from federation.matrix.canonical_json import NotCanonical, NotJson, decode, encode
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain, has_valid_length, is_room_id, is_user_id
from federation.transactions.edu_dispatcher import TypingUsers
from federation.transactions.edu_parsing import parse_presence
from federation.transactions.edus import (
    MAX_RECEIPTS,
    MAX_TO_DEVICE_BYTES,
    Receipt,
    ToDevice,
    UserPresence,
    is_event_id_text,
    is_natural,
)

MAX_EPHEMERAL: Final = 1_000
"""How many entries of one transaction are read. They are short-lived; Synapse sends 100."""
MAX_TYPING: Final = 1_000
MAX_REASONS: Final = 5

# The specified name, then the older ones. Synapse sends the same data under two names, so only the first one
# present is read.
_EPHEMERAL: Final = ("ephemeral", "de.sorunome.msc2409.ephemeral")
_TO_DEVICE: Final = ("to_device", "de.sorunome.msc2409.to_device")
_DEVICE_LISTS: Final = ("device_lists", "org.matrix.msc3202.device_lists")
_KEY_COUNTS: Final = (
    "device_one_time_keys_count",
    "org.matrix.msc3202.device_one_time_keys_count",
    "org.matrix.msc3202.device_one_time_key_counts",
)

EphemeralEvent = TypingUsers | Receipt | UserPresence


@dataclass(frozen=True, slots=True)
class DeviceLists:
    """Users whose devices have changed, and users who no longer share an encrypted room with this node."""

    changed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Transaction:
    """`one_time_keys`: remaining keys by user, device and algorithm. `skipped`: why entries were skipped."""

    events: tuple[ReceivedEvent, ...] = ()
    ephemeral: tuple[EphemeralEvent, ...] = ()
    to_device: tuple[ToDevice, ...] = ()
    device_lists: DeviceLists = DeviceLists()
    one_time_keys: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    skipped: tuple[str, ...] = ()

    @property
    def digest(self) -> bytes:
        """Identifies a repeated transaction by its events. Synapse stores only the events of a transaction
        and updates the age of each."""
        return sha256("\0".join(received.event.event_id for received in self.events).encode()).digest()


def read(body: bytes) -> Transaction:
    """Raises `MatrixError` if the body is not a transaction."""
    try:
        value = decode(body)
    except NotJson:
        raise MatrixError("M_NOT_JSON", "The body is not JSON.") from None
    if not isinstance(value, dict):
        raise MatrixError("M_BAD_JSON", "The body is not an object.")
    # "events: Required. A list of events." A transaction with only ephemeral data may omit it.
    entries = value.get("events", [])
    if not isinstance(entries, list):
        raise MatrixError("M_BAD_JSON", "events is not a list.")
    events = [read_event(one) for one in entries]
    messages = [_to_device(one) for one in _list(value, _TO_DEVICE)]
    skipped = [one for one in (*events, *messages) if isinstance(one, str)]
    return Transaction(
        tuple(one for one in events if isinstance(one, ReceivedEvent)),
        tuple(item for one in _list(value, _EPHEMERAL)[:MAX_EPHEMERAL] for item in _ephemeral(one)),
        tuple(one for one in messages if isinstance(one, ToDevice)),
        _device_lists(_first(value, _DEVICE_LISTS)),
        _key_counts(_first(value, _KEY_COUNTS)),
        tuple(dict.fromkeys(skipped))[:MAX_REASONS],
    )


def transaction_id_problem(transaction_id: str) -> str | None:
    """Why the text cannot be a transaction id."""
    if has_valid_length(transaction_id) and "\0" not in transaction_id and not _is_broken(transaction_id):
        return None
    return "A transaction id has at most 255 bytes of text."


def _is_broken(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _first(value: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((value[name] for name in names if name in value), None)


def _list(value: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    found = _first(value, names)
    return found if isinstance(found, list) else []


def _ephemeral(value: object) -> Iterator[EphemeralEvent]:
    """Invalid entries are skipped silently, because ephemeral data has no lasting value."""
    if not isinstance(value, dict) or not isinstance(value.get("content"), dict):
        return
    content = value["content"]
    match value.get("type"):
        case "m.typing":
            yield from _typing(value.get("room_id"), content)
        case "m.receipt":
            yield from islice(_receipts(value.get("room_id"), content), MAX_RECEIPTS)
        case "m.presence":
            yield from _presence(value.get("sender"), content)


def _typing(room_id: object, content: Mapping[str, Any]) -> Iterator[TypingUsers]:
    # "user_ids: Required. The list of user IDs typing in this room, if any."
    user_ids = content.get("user_ids")
    if isinstance(room_id, str) and is_room_id(room_id) and isinstance(user_ids, list):
        users = {user for user in user_ids[:MAX_TYPING] if isinstance(user, str) and is_user_id(user)}
        yield TypingUsers(room_id, tuple(sorted(users)))


def _receipts(room_id: object, content: Mapping[str, Any]) -> Iterator[Receipt]:
    """Event id → `m.read` → user id → {ts, thread_id?}."""
    if not isinstance(room_id, str) or not is_room_id(room_id):
        return
    for event_id, by_type in content.items():
        # `m.read.private` concerns only the reader.
        by_user = by_type.get("m.read") if isinstance(by_type, dict) else None
        if not is_event_id_text(event_id) or not isinstance(by_user, dict):
            continue
        for user_id, data in by_user.items():
            if not is_user_id(user_id) or not isinstance(data, dict) or not is_natural(data.get("ts")):
                continue
            thread_id = data.get("thread_id")
            if thread_id is None or thread_id == "main" or is_event_id_text(thread_id):
                yield Receipt(room_id, user_id, event_id, data["ts"], thread_id)


def _presence(sender: object, content: Mapping[str, Any]) -> Iterator[UserPresence]:
    if isinstance(sender, str) and is_user_id(sender):
        yield from parse_presence({"push": [{**content, "user_id": sender}]}, domain(sender) or "").users


def _to_device(value: object) -> ToDevice | str:
    if not isinstance(value, dict):
        return "a to-device message is not an object"
    type_, sender, user, device, content = (
        value.get(name) for name in ("type", "sender", "to_user_id", "to_device_id", "content")
    )
    if not isinstance(sender, str) or not is_user_id(sender) or not isinstance(content, dict):
        return "a to-device message has no sender or no content"
    if not isinstance(user, str) or not is_user_id(user):
        return "a to-device message has no recipient"
    if not _is_name(type_) or not _is_name(device):
        return "a to-device message has no type or no device id"
    try:
        size = len(encode(content, strict=False))
    except NotCanonical:
        return "a to-device message cannot be encoded"
    if size > MAX_TO_DEVICE_BYTES:
        return f"a to-device message has more than {MAX_TO_DEVICE_BYTES} bytes"
    # It has no id of its own: the transaction id detects repetitions.
    return ToDevice(sender, str(type_), "", {user: {str(device): content}})


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value) and has_valid_length(value) and "\0" not in value


def _device_lists(value: object) -> DeviceLists:
    if not isinstance(value, dict):
        return DeviceLists()
    changed, left = (_users(value.get(name)) for name in ("changed", "left"))
    return DeviceLists(changed, left)


def _users(value: object) -> tuple[str, ...]:
    entries = value if isinstance(value, list) else []
    return tuple(user for user in entries if isinstance(user, str) and is_user_id(user))


def _key_counts(value: object) -> dict[str, dict[str, dict[str, int]]]:
    """Invalid counts are skipped."""
    users = value if isinstance(value, dict) else {}
    return {
        user: {
            device: {name: count for name, count in counts.items() if is_natural(count)}
            for device, counts in devices.items()
            if isinstance(counts, dict)
        }
        for user, devices in users.items()
        if is_user_id(user) and isinstance(devices, dict)
    }
