"""Sends events, sets state and redacts.

A homeserver accepts several events for one room at once and creates more per second that way. Events that
people read in sequence keep their order; events of different threads are independent.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

from mautrix.api import Method, Path, PathBuilder

from appservice.homeserver.api import HomeserverUnavailable
from appservice.intake.received_event import TRANSACTION_KEY
from appservice.local_users.deduplication import SenderInRoom, SentEventIndex
from appservice.local_users.merge_extremities import RETRY_DELAYS, LostJoinRepair
from appservice.local_users.parts import Parts, UserOperations, is_writable
from appservice.registration.tokens import transaction_key
from federation.matrix.canonical_json import is_equal
from federation.matrix.errors import MatrixError, limit_exceeded
from federation.matrix.identifiers import MAX_BYTES, has_valid_length
from federation.rooms.server_acl import check_own_server_allowed
from federation.transactions.edus import is_event_id_text
from storage.concurrency import KeyedLock, SingleFlight

MAIN: Final = ""


def ordering_lane(content: Mapping[str, Any]) -> str | None:
    """Events of one user in one lane of a room are sent in order. None for events that need no order: a
    reaction contains the id of its event."""
    relation = content.get("m.relates_to")
    if not isinstance(relation, Mapping):
        return MAIN
    match relation.get("rel_type"):
        case "m.annotation":
            return None
        # The last edit wins.
        case "m.thread" | "m.replace" as kind:
            event_id = relation.get("event_id")
            return f"{kind} {event_id}" if isinstance(event_id, str) else MAIN
    return MAIN


MAX_TS: Final = 2**53 - 1
AT_ONCE: Final = 6
"""How many events are sent to one room concurrently. More would leave forward extremities behind: an event
references at most ten of them, and concurrent events reference mostly the same ones. Synapse rewrites all of
them with each batch of events."""
MAX_WAITING: Final = 5_000
"""Events that are being sent to the same room or are queued for it."""
RETRY_AFTER_MS: Final = 1_000
STATE: Final = "state"
_REDACTION: Final = "m.room.redaction"


class Sending(UserOperations):
    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._sent_events = SentEventIndex(parts.client, parts.rooms, parts.database, now_ms=parts.now_ms)
        self._lanes: KeyedLock[tuple[str, str, str]] = KeyedLock()
        self._senders: WeakValueDictionary[SenderInRoom, asyncio.Semaphore] = WeakValueDictionary()
        self._rooms: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._waiting: Counter[str] = Counter()
        self._lost_joins = LostJoinRepair(parts.client, parts.rooms, parts.namespaces.node_user)
        self._sending: SingleFlight[tuple[str, str, str], str] = SingleFlight()

    async def close(self) -> None:
        """Cancel what is in progress."""
        await self._sending.close()
        await self._lost_joins.close()
        await self._sent_events.close()

    async def send(
        self,
        room_id: str,
        sender: str,
        type_: str,
        content: Mapping[str, Any],
        *,
        transaction_id: str | None = None,
        ts: int | None = None,
    ) -> str:
        self._require_ghost(sender)
        if type_ == _REDACTION:
            raise MatrixError("M_INVALID_PARAM", "Use redact for redactions.", 400)
        _check_transaction_id_and_time(transaction_id, ts)
        _check_type_and_state_key(type_)
        self._require_room_id(room_id)
        path = Path.v3.rooms[room_id].send[type_]
        pending = _PendingEvent(room_id, sender, path, type_, content, ts, ordering_lane(content))
        return await self._send(pending, transaction_id)

    async def set_state(
        self,
        room_id: str,
        sender: str,
        type_: str,
        content: Mapping[str, Any],
        state_key: str = "",
        *,
        ts: int | None = None,
    ) -> str:
        self._require_ghost(sender)
        _check_transaction_id_and_time(None, ts)
        _check_type_and_state_key(type_, state_key)
        self._require_room_id(room_id)
        match type_:
            case "m.room.member":
                raise MatrixError("M_INVALID_PARAM", "Use the membership operations for memberships.", 400)
            case "m.room.encryption":
                raise MatrixError("M_INVALID_PARAM", "This server does not support encrypted rooms.", 400)
            case "m.room.server_acl":
                check_own_server_allowed(self._parts.server_name, dict(content))
        path = Path.v3.rooms[room_id].state[type_]
        path = path[state_key] if state_key else path
        # "If the event has a state_key that starts with an @ and does not match the sender, reject."
        by_level = None if state_key.startswith("@") and state_key != sender else type_
        pending = _PendingEvent(room_id, sender, path, by_level, content, ts, STATE)
        async with AsyncExitStack() as stack:
            stack.enter_context(self._queue_slot(room_id))
            await stack.enter_async_context(self._lane(pending))
            current = await self._parts.rooms.state_event(room_id, type_, state_key)
            if current is not None and is_equal(dict(current.content), dict(content)):
                return current.event_id
            event_id = await self._put(path, pending)
            event_ts = self._parts.now_ms() if ts is None else ts
            await self._parts.rooms.record_change(room_id, type_, state_key, sender, content, event_id, event_ts)
        return event_id

    async def redact(
        self, room_id: str, sender: str, event_id: str, *, reason: str | None = None, transaction_id: str | None = None
    ) -> str:
        self._require_ghost(sender)
        _check_transaction_id_and_time(transaction_id, None)
        self._require_room_id(room_id)
        is_state = await self._is_state(room_id, sender, event_id)
        # The homeserver decides whether the sender may redact another user's event.
        content = {} if reason is None else {"reason": reason}
        path = Path.v3.rooms[room_id].redact[event_id]
        pending = _PendingEvent(room_id, sender, path, None, content, None, None)
        redaction = await self._send(pending, transaction_id)
        if is_state:
            # The room version decides which content survives.
            await self._parts.rooms.invalidate(room_id)
        return redaction

    async def _send(self, pending: "_PendingEvent", transaction_id: str | None) -> str:
        unmarked = {name: value for name, value in pending.content.items() if name != TRANSACTION_KEY}
        if transaction_id is None:
            # A fresh transaction id: the homeserver counts all users of this node as one client.
            with self._queue_slot(pending.room_id):
                async with self._lane(pending):
                    return await self._put(pending.path[secrets.token_hex(16)], replace(pending, content=unmarked))
        key = transaction_key(pending.sender, pending.room_id, transaction_id)
        pending = replace(pending, content={**unmarked, TRANSACTION_KEY: key})
        # A cancelled caller does not cancel the event.
        name = (pending.sender, pending.room_id, key)
        return await self._sending.run(name, partial(self._put_once, pending, key))

    async def _put_once(self, pending: "_PendingEvent", key: str) -> str:
        sender, room_id = pending.sender, pending.room_id
        async with AsyncExitStack() as stack:
            stack.enter_context(self._queue_slot(room_id))
            await stack.enter_async_context(self._lane(pending))
            before = await self._sent_events.find(sender, room_id, key)
            if before is not None:
                return before
            try:
                event_id = await self._put(pending.path[key], pending)
            except MatrixError:
                raise
            except BaseException:
                self._sent_events.invalidate(sender, room_id)
                raise
            self._sent_events.sent(sender, room_id, key, event_id)
        return event_id

    async def _put(self, path: PathBuilder, pending: "_PendingEvent") -> str:
        try:
            found = await self._put_with_retries(path, pending)
        except MatrixError as refused:
            raise await self._refusal(pending.room_id, pending.sender, refused) from None
        event_id = found.get("event_id")
        if not isinstance(event_id, str) or not is_event_id_text(event_id):
            raise HomeserverUnavailable(self._parts.client.url, "its response has no valid event_id")
        return event_id

    async def _put_with_retries(self, path: PathBuilder, pending: "_PendingEvent") -> dict[str, Any]:
        """Retry an event that the room's state allows although the homeserver refuses it."""
        room_id, sender = pending.room_id, pending.sender
        ask = partial(self._put_within_limits, path, pending)
        for pause in RETRY_DELAYS:
            try:
                return await ask()
            except MatrixError as refused:
                if pending.type is None or not await self._lost_joins.is_lost_join(
                    room_id, sender, pending.type, is_state=pending.lane == STATE,
                    refused=refused, now_ms=self._parts.now_ms(),
                ):  # fmt: skip
                    raise
            await self._lost_joins.merge_extremities(room_id)
            await asyncio.sleep(pause)
        try:
            return await ask()
        except MatrixError:
            self._lost_joins.record_refusal(room_id, sender, self._parts.now_ms())
            raise

    async def _put_within_limits(self, path: PathBuilder, pending: "_PendingEvent") -> dict[str, Any]:
        """First come, first served, but each sender has at most `AT_ONCE` requests in the queue of a room, so
        a busy sender does not delay the others."""
        room_id, sender = pending.room_id, pending.sender
        own = self._senders.setdefault((sender, room_id), asyncio.Semaphore(AT_ONCE))
        room = self._rooms.setdefault(room_id, asyncio.Semaphore(AT_ONCE))
        async with own, room:
            return await self._parts.client.request(Method.PUT, path, pending.content, user=sender, ts=pending.ts)

    async def _is_state(self, room_id: str, user: str, event_id: str) -> bool:
        """Raises 404 for an event that is not in the room."""
        unknown = MatrixError("M_NOT_FOUND", "There is no such event in that room.", 404)
        if not is_event_id_text(event_id) or not is_writable(event_id):
            raise unknown
        event = await self._parts.rooms.event(event_id)
        if event is not None:
            if event.room_id != room_id:
                raise unknown
            return event.state_key is not None
        # A user who may not read the event may not redact it either, and gets that error.
        resident = await self._resident(room_id)
        try:
            path = Path.v3.rooms[room_id].event[event_id]
            found = await self._parts.client.request(Method.GET, path, user=resident)
        except MatrixError as refused:
            if refused.errcode == "M_NOT_FOUND":
                raise unknown from None
            raise await self._refusal(room_id, user, refused) from None
        return "state_key" in found

    @contextmanager
    def _queue_slot(self, room_id: str) -> Iterator[None]:
        if self._waiting[room_id] >= MAX_WAITING:
            text = "Too many events are queued for this room: try again later."
            raise limit_exceeded(text, 429, RETRY_AFTER_MS)
        self._waiting[room_id] += 1
        try:
            yield
        finally:
            self._waiting[room_id] -= 1
            if not self._waiting[room_id]:
                del self._waiting[room_id]

    def _lane(self, pending: "_PendingEvent") -> AbstractAsyncContextManager[object]:
        """Held in order of arrival."""
        if pending.lane is None:
            return nullcontext()
        return self._lanes.hold((pending.sender, pending.room_id, pending.lane))


@dataclass(frozen=True, slots=True)
class _PendingEvent:
    """An event to send, with its lane. `type` is None if the room's power levels do not decide by it."""

    room_id: str
    sender: str
    path: PathBuilder
    type: str | None
    content: Mapping[str, Any]
    ts: int | None
    lane: str | None


def _check_transaction_id_and_time(transaction_id: str | None, ts: int | None) -> None:
    if transaction_id is not None and (
        "\0" in transaction_id or not 0 < len(transaction_id.encode("utf-8", "replace")) <= MAX_BYTES
    ):
        raise MatrixError("M_INVALID_PARAM", f"A transaction id has 1 to {MAX_BYTES} bytes.", 400)
    if ts is not None and not (type(ts) is int and 0 <= ts <= MAX_TS):
        raise MatrixError("M_INVALID_PARAM", "Invalid timestamp in milliseconds.", 400)


def _check_type_and_state_key(*names: str) -> None:
    """Homeservers that accept NUL in these names fail when they store them."""
    if not names[0] or not all(has_valid_length(name) and is_writable(name) for name in names):
        raise MatrixError("M_BAD_JSON", f"Event type and state key are text of at most {MAX_BYTES} bytes.", 400)
