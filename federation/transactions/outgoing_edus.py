"""Builds the EDUs that this server sends, with the rules for queueing each of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from federation.matrix.canonical_json import encode
from federation.transactions.edus import MAX_PRESENCES, MAX_TO_DEVICE_BYTES, Receipt, ToDevice, Typing, UserPresence

TYPING_MAX_AGE_MS: Final = 60_000
"""An older typing notification is dropped: receivers time typing out themselves."""

STATE_MAX_AGE_MS: Final = 3_600_000
"""Receipts and presence older than this are not sent to a server that was unreachable meanwhile."""


@dataclass(frozen=True, slots=True)
class OutgoingEdu:
    """An EDU to be sent.

    `coalesce_key`: a queued EDU with the same key is replaced by this one; None if every EDU has to be sent.
    `max_age_ms`: the EDU is dropped when it could not be sent for so long; None if it must be delivered.
    """

    edu_type: str
    content: Mapping[str, Any] = field(repr=False)
    coalesce_key: str | None = None
    max_age_ms: int | None = None


def typing(status: Typing) -> OutgoingEdu:
    content = {"room_id": status.room_id, "user_id": status.user_id, "typing": status.typing}
    return OutgoingEdu("m.typing", content, f"m.typing {status.room_id} {status.user_id}", TYPING_MAX_AGE_MS)


def receipt(read: Receipt) -> OutgoingEdu:
    """Build a public read receipt. Private receipts are never sent to other servers."""
    data: dict[str, Any] = {"ts": read.ts}
    if read.thread_id is not None:
        data["thread_id"] = read.thread_id
    content = {read.room_id: {"m.read": {read.user_id: {"data": data, "event_ids": [read.event_id]}}}}
    # An unthreaded receipt and a threaded one do not replace each other.
    name = f"m.receipt {read.room_id} {read.user_id} {read.thread_id or ''}"
    return OutgoingEdu("m.receipt", content, name, STATE_MAX_AGE_MS)


def presence(user: UserPresence) -> OutgoingEdu:
    """Build the presence EDU of one user, which a newer one replaces. `pack_edus` combines several users."""
    update: dict[str, Any] = {"user_id": user.user_id, "presence": user.presence}
    if user.last_active_ago is not None:
        update["last_active_ago"] = user.last_active_ago
    if user.currently_active:
        update["currently_active"] = True
    if user.status_msg is not None:
        update["status_msg"] = user.status_msg
    return OutgoingEdu("m.presence", {"push": [update]}, f"m.presence {user.user_id}", STATE_MAX_AGE_MS)


def to_device(message: ToDevice) -> OutgoingEdu:
    messages = {user: dict(devices) for user, devices in message.messages.items()}
    assert len(encode(messages)) <= MAX_TO_DEVICE_BYTES, "the caller refuses a message that is too large"
    content = {"sender": message.sender, "type": message.type, "message_id": message.message_id, "messages": messages}
    return OutgoingEdu("m.direct_to_device", content)


def device_list_update(user_id: str, device_id: str, stream_id: int, prev_ids: Sequence[int]) -> OutgoingEdu:
    """Announce that a device has changed. The receiver queries the device list for the details."""
    content = {"user_id": user_id, "device_id": device_id, "stream_id": stream_id, "prev_id": list(prev_ids)}
    return OutgoingEdu("m.device_list_update", content)


def pack_edus(edus: Iterable[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return the EDUs as a transaction contains them: up to `MAX_PRESENCES` users share one presence EDU."""
    pushed: list[Any] = []
    rest: list[dict[str, Any]] = []
    for edu_type, content in edus:
        if edu_type == "m.presence":
            pushed += content["push"]
        else:
            rest.append({"edu_type": edu_type, "content": content})
    parts = (pushed[start : start + MAX_PRESENCES] for start in range(0, len(pushed), MAX_PRESENCES))
    return rest + [{"edu_type": "m.presence", "content": {"push": part}} for part in parts]
