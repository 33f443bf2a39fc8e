"""Sending events, setting state, redacting.

What is to be heard in the order in which it was said.

A homeserver takes several events for one room at once, and makes more of them a second that way. What people
read one after the other stays in its order; what belongs to different threads nobody reads so.
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

from appservice.homeserver.api import HomeserverAway
from appservice.intake.received_event import TRANSACTION_KEY
from appservice.local_users.deduplication import Place, SentBefore
from appservice.local_users.merge_extremities import PAUSES, LostJoins
from appservice.local_users.parts import HasParts, Parts, is_writable
from appservice.registration.tokens import transaction_key
from federation.matrix.canonical_json import is_equal
from federation.matrix.errors import MatrixError, limit_exceeded
from federation.matrix.identifiers import MAX_BYTES, has_valid_length
from federation.rooms.server_acl import check_own_server_allowed
from federation.transactions.edus import is_event_id_text
from storage.concurrency import KeyedLock, SingleFlight

MAIN: Final = ""


def sending_lane(content: Mapping[str, Any]) -> str | None:
    """What one user says in one lane of a room is said one after the other. None for what need not wait for
    anything: who reacts to an event has its id."""
    relation = content.get("m.relates_to")
    if not isinstance(relation, Mapping):
        return MAIN
    match relation.get("rel_type"):
        case "m.annotation":
            return None
        # The last edit is what counts.
        case "m.thread" | "m.replace" as kind:
            event_id = relation.get("event_id")
            return f"{kind} {event_id}" if isinstance(event_id, str) else MAIN
    return MAIN


MAX_TS: Final = 2**53 - 1
AT_ONCE: Final = 6
"""How many events a room is sent at the same time. What is more leaves ends behind in its history: an event
is tied to ten of them at most, and those that are made meanwhile are tied to much the same ones. A Synapse
writes all that there are anew with each group of events."""
MOST_WAITING: Final = 5_000
"""Events that are being sent to the same room, or wait for it."""
RETRY_AFTER_MS: Final = 1_000
STATE: Final = "state"
_REDACTION: Final = "m.room.redaction"


class Sending(HasParts):
    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._before = SentBefore(parts.client, parts.rooms, parts.database, now_ms=parts.now_ms)
        self._lanes: KeyedLock[tuple[str, str, str]] = KeyedLock()
        self._senders: WeakValueDictionary[Place, asyncio.Semaphore] = WeakValueDictionary()
        self._rooms: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._waiting: Counter[str] = Counter()
        self._lost_joins = LostJoins(parts.client, parts.rooms, parts.namespaces.node_user)
        self._saying: SingleFlight[tuple[str, str, str], str] = SingleFlight()

    async def close(self) -> None:
        """Give up what is under way."""
        await self._saying.close()
        await self._lost_joins.close()
        await self._before.close()

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
        self._refuse_strangers(sender)
        if type_ == _REDACTION:
            raise MatrixError("M_INVALID_PARAM", "Redactions have an operation of their own.", 400)
        _refuse_names(transaction_id, ts)
        _refuse_type(type_)
        self._refuse_no_room(room_id)
        path = Path.v3.rooms[room_id].send[type_]
        saying = _Saying(room_id, sender, path, type_, content, ts, sending_lane(content))
        return await self._say(saying, transaction_id)

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
        self._refuse_strangers(sender)
        _refuse_names(None, ts)
        _refuse_type(type_, state_key)
        self._refuse_no_room(room_id)
        match type_:
            case "m.room.member":
                raise MatrixError("M_INVALID_PARAM", "Memberships have operations of their own.", 400)
            case "m.room.encryption":
                raise MatrixError("M_INVALID_PARAM", "Rooms of this server are not encrypted.", 400)
            case "m.room.server_acl":
                check_own_server_allowed(self._parts.server_name, dict(content))
        path = Path.v3.rooms[room_id].state[type_]
        path = path[state_key] if state_key else path
        saying = _Saying(room_id, sender, path, type_, content, ts, STATE)
        async with AsyncExitStack() as stack:
            stack.enter_context(self._one_more(room_id))
            await stack.enter_async_context(self._lane(saying))
            current = await self._parts.rooms.state_event(room_id, type_, state_key)
            if current is not None and is_equal(dict(current.content), dict(content)):
                return current.event_id
            event_id = await self._put(path, saying)
            sent_at = self._parts.now_ms() if ts is None else ts
            await self._parts.rooms.noted(room_id, type_, state_key, sender, content, event_id, sent_at)
        return event_id

    async def redact(
        self,
        room_id: str,
        sender: str,
        event_id: str,
        *,
        reason: str | None = None,
        transaction_id: str | None = None,
    ) -> str:
        self._refuse_strangers(sender)
        _refuse_names(transaction_id, None)
        self._refuse_no_room(room_id)
        is_state = await self._is_state(room_id, sender, event_id)
        # Whether the sender has the power for it, where it is another's event, is for the homeserver to say.
        content = {} if reason is None else {"reason": reason}
        path = Path.v3.rooms[room_id].redact[event_id]
        saying = _Saying(room_id, sender, path, None, content, None, None)
        redaction = await self._say(saying, transaction_id)
        if is_state:
            # What is left of it the room's version says.
            await self._parts.rooms.doubt(room_id)
        return redaction

    async def _say(self, saying: "_Saying", transaction_id: str | None) -> str:
        said = {name: value for name, value in saying.content.items() if name != TRANSACTION_KEY}
        if transaction_id is None:
            # One that nobody has used: the homeserver has one count for all of our users.
            with self._one_more(saying.room_id):
                async with self._lane(saying):
                    return await self._put(saying.path[secrets.token_hex(16)], replace(saying, content=said))
        key = transaction_key(saying.sender, saying.room_id, transaction_id)
        saying = replace(saying, content={**said, TRANSACTION_KEY: key})
        # Whoever stops waiting does not stop the event.
        name = (saying.sender, saying.room_id, key)
        return await self._saying.run(name, partial(self._put_once, saying, key))

    async def _put_once(self, saying: "_Saying", key: str) -> str:
        sender, room_id = saying.sender, saying.room_id
        async with AsyncExitStack() as stack:
            stack.enter_context(self._one_more(room_id))
            await stack.enter_async_context(self._lane(saying))
            before = await self._before.find(sender, room_id, key)
            if before is not None:
                return before
            try:
                event_id = await self._put(saying.path[key], saying)
            except MatrixError:
                raise
            except BaseException:
                self._before.doubt(sender, room_id)
                raise
            self._before.sent(sender, room_id, key, event_id)
        return event_id

    async def _put(self, path: PathBuilder, saying: "_Saying") -> str:
        try:
            found = await self._insist(path, saying)
        except MatrixError as refused:
            raise await self._refusal(saying.room_id, saying.sender, refused) from None
        event_id = found.get("event_id")
        if not isinstance(event_id, str) or not is_event_id_text(event_id):
            raise HomeserverAway(self._parts.client.url, "it does not say which event it has made")
        return event_id

    async def _insist(self, path: PathBuilder, saying: "_Saying") -> dict[str, Any]:
        """What is allowed is not refused at once."""
        room_id, sender = saying.room_id, saying.sender
        ask = partial(self._put_in_turn, path, saying)
        for pause in PAUSES:
            try:
                return await ask()
            except MatrixError as refused:
                if saying.type is None or not await self._lost_joins.may_be(
                    room_id, sender, saying.type, is_state=saying.lane == STATE,
                    refused=refused, now_ms=self._parts.now_ms(),
                ):  # fmt: skip
                    raise
            await self._lost_joins.tie(room_id)
            await asyncio.sleep(pause)
        try:
            return await ask()
        except MatrixError:
            self._lost_joins.give_up(room_id, sender, self._parts.now_ms())
            raise

    async def _put_in_turn(self, path: PathBuilder, saying: "_Saying") -> dict[str, Any]:
        """Whoever came first is let in first, but nobody stands in line with more than a room is sent at
        once: who says much does not keep the others waiting."""
        room_id, sender = saying.room_id, saying.sender
        own = self._senders.setdefault((sender, room_id), asyncio.Semaphore(AT_ONCE))
        room = self._rooms.setdefault(room_id, asyncio.Semaphore(AT_ONCE))
        async with own, room:
            return await self._parts.client.ask(Method.PUT, path, saying.content, user=sender, ts=saying.ts)

    async def _is_state(self, room_id: str, user: str, event_id: str) -> bool:
        """Of an event that is in the room; 404 for all others."""
        unknown = MatrixError("M_NOT_FOUND", "There is no such event in that room.", 404)
        if not is_event_id_text(event_id) or not is_writable(event_id):
            raise unknown
        event = await self._parts.rooms.event(event_id)
        if event is not None:
            if event.room_id != room_id:
                raise unknown
            return event.state_key is not None
        # Whoever may not see it may not redact it either, and is to be told that.
        resident = await self._resident(room_id)
        try:
            path = Path.v3.rooms[room_id].event[event_id]
            found = await self._parts.client.ask(Method.GET, path, user=resident)
        except MatrixError as refused:
            if refused.errcode == "M_NOT_FOUND":
                raise unknown from None
            raise await self._refusal(room_id, user, refused) from None
        return "state_key" in found

    @contextmanager
    def _one_more(self, room_id: str) -> Iterator[None]:
        if self._waiting[room_id] >= MOST_WAITING:
            text = "Too many events wait for this room: send again later."
            raise limit_exceeded(text, 429, RETRY_AFTER_MS)
        self._waiting[room_id] += 1
        try:
            yield
        finally:
            self._waiting[room_id] -= 1
            if not self._waiting[room_id]:
                del self._waiting[room_id]

    def _lane(self, saying: "_Saying") -> AbstractAsyncContextManager[object]:
        """One after the other, in the order in which they came."""
        if saying.lane is None:
            return nullcontext()
        return self._lanes.hold((saying.sender, saying.room_id, saying.lane))


@dataclass(frozen=True, slots=True)
class _Saying:
    """What is to be said, where, and what it is to follow. The type is left out where the state of the room
    does not say by it who may."""

    room_id: str
    sender: str
    path: PathBuilder
    type: str | None
    content: Mapping[str, Any]
    ts: int | None
    lane: str | None


def _refuse_names(transaction_id: str | None, ts: int | None) -> None:
    if transaction_id is not None and (
        "\0" in transaction_id or not 0 < len(transaction_id.encode("utf-8", "replace")) <= MAX_BYTES
    ):
        raise MatrixError("M_INVALID_PARAM", f"A transaction id has 1 to {MAX_BYTES} bytes.", 400)
    if ts is not None and not (type(ts) is int and 0 <= ts <= MAX_TS):
        raise MatrixError("M_INVALID_PARAM", "That is no time in milliseconds.", 400)


def _refuse_type(*names: str) -> None:
    """A homeserver that takes NUL in such a name fails when it writes it down."""
    if not names[0] or not all(has_valid_length(name) and is_writable(name) for name in names):
        raise MatrixError("M_BAD_JSON", f"A type and a state key are text of at most {MAX_BYTES} bytes.", 400)
