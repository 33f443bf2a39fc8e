"""EDUs that are worth something for a moment: typing, receipts, presence.

An entry that cannot be read is left out and the others stay; the whole EDU goes only where it has no parts.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from federation.edu.fields import Unreadable, belongs_to, is_event, is_natural, room_in, user_of
from federation.edu.limits import MAX_PRESENCES, MAX_RECEIPTS, MAX_STATUS_BYTES
from federation.edu.values import Presence, PresenceOfUser, Receipt, Receipts, Typing
from federation.identifiers import fits, is_room_id

_STATES: Final = frozenset({"online", "unavailable", "offline"})


def read_typing(content: Mapping[str, Any], origin: str) -> Typing:
    # `m.typing`: "room_id: Required. The room where the user's typing status has been updated. typing:
    # Required. Whether the user is typing in the room or not. user_id: Required."
    typing = content.get("typing")
    if not isinstance(typing, bool):
        raise Unreadable("typing is neither true nor false")
    return Typing(room_in(content, "room_id"), user_of(origin, content, "user_id"), typing)


def read_receipts(content: Mapping[str, Any], origin: str) -> Receipts:
    # `m.receipt`: room id → `m.read` → user id → {data: {ts, thread_id?}, event_ids: [id]}.
    return Receipts(tuple(islice(_receipts(content, origin), MAX_RECEIPTS)))


def _receipts(content: Mapping[str, Any], origin: str) -> Iterator[Receipt]:
    for room_id, by_type in content.items():
        # "m.read: Required. Read receipts for users in the room." Other types stay with the server of who
        # reads: `m.read.private` above all is never sent, and if it is, not looked at.
        by_user = by_type.get("m.read") if isinstance(by_type, dict) else None
        if not is_room_id(room_id) or not isinstance(by_user, dict):
            continue
        for user_id, read in by_user.items():
            receipt = _receipt(room_id, user_id, read) if belongs_to(origin, user_id) else None
            if receipt is not None:
                yield receipt


def _receipt(room_id: str, user_id: str, read: object) -> Receipt | None:
    if not isinstance(read, dict):
        return None
    data, event_ids = read.get("data"), read.get("event_ids")
    # "event_ids: The extremity event IDs that the user has read up to." There has only ever been one.
    if not isinstance(data, dict) or not isinstance(event_ids, list) or not event_ids:
        return None
    thread_id = data.get("thread_id")
    if not is_event(event_ids[-1]) or not is_natural(data.get("ts")):
        return None
    if thread_id is not None and not (thread_id == "main" or is_event(thread_id)):
        return None
    return Receipt(room_id, user_id, event_ids[-1], data["ts"], thread_id)


def read_presence(content: Mapping[str, Any], origin: str) -> Presence:
    # `m.presence`: "push: Required. A list of presence updates that the receiving server is likely to be
    # interested in."
    push = content.get("push")
    if not isinstance(push, list):
        raise Unreadable("push is not a list")
    read = (_presence(update, origin) for update in push[:MAX_PRESENCES])
    return Presence(tuple(user for user in read if user is not None))


def _presence(update: object, origin: str) -> PresenceOfUser | None:
    if not isinstance(update, dict) or not belongs_to(origin, update.get("user_id")):
        return None
    presence, ago, status = (update.get(name) for name in ("presence", "last_active_ago", "status_msg"))
    if not isinstance(presence, str) or presence not in _STATES:
        return None
    return PresenceOfUser(
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
        and (fits(status) or len(status.encode("utf-8", "surrogatepass")) <= MAX_STATUS_BYTES)
    )
