"""Makes events of our own at the head of a room: a chain, unless the room has truly forked."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from federation.auth_rules import selected
from federation.client.errors import PeerRefused
from federation.events import CannotBuild, EventId, Pdu, Signer, Template, build
from federation.events.builder import as_event
from federation.events.format import MAX_OWN_PREV_EVENTS
from federation.events.received import Accepted, Dropped, Receipt
from federation.events.room_event import NewEvent
from federation.matrix.errors import MatrixError, limit_exceeded
from federation.matrix.identifiers import is_room_id
from federation.matrix.room_version import RoomVersion
from federation.observer import HomeserverObserver
from federation.rooms.commit import RoomWriting, Session
from federation.rooms.draft import RoomDraft
from federation.rooms.policy_server import PolicyServer, is_signed, needs_signature
from federation.rooms.policy_signing import PolicySigning
from federation.rooms.receive_checks import Genuine
from federation.rooms.store import RoomStore
from federation.state_resolution.state_groups import StateGroup
from storage.concurrency import BackgroundTasks
from storage.database import Connection
from storage.rooms.sent_transactions import TransactionKey, fetch_sent, insert_sent

AT_ONCE: Final = 50
"""How many events that wait for the same room share a commit."""
MOST_WAITING: Final = 5_000
"""Events that wait for the same room."""
RETRY_AFTER_MS: Final = 1_000
CLOSED_WITHIN: Final = 15.0
"""Seconds for which closing waits for events: longer than a policy server has to answer."""
ATTEMPTS: Final = 3
"""To have an event signed by the policy server that the room uses when it is committed."""


@dataclass(frozen=True, slots=True)
class NewRoom:
    """A room that is being made, and the transaction that makes it."""

    connection: Connection
    events: Sequence[Pdu]

    @property
    def room_id(self) -> str:
        return self.events[0].room_id


@dataclass(frozen=True, slots=True)
class _Waiting:
    event: NewEvent
    transaction_id: str | None
    made: "asyncio.Future[Pdu]"

    @property
    def sent(self) -> TransactionKey | None:
        """Under which name it is found when it is sent again."""
        return None if self.transaction_id is None else (self.event.sender, self.transaction_id)


@dataclass(slots=True)
class _Made:
    """What became of a batch, by the numbers in it."""

    events: dict[int, Pdu] = field(default_factory=dict)
    refused: dict[int, Exception] = field(default_factory=dict)
    new: int = 0
    """How many had not been sent before."""
    sent: dict[TransactionKey, EventId] = field(default_factory=dict)
    """The new ones among them that have a transaction id."""


class _NeedsSignature(Exception):
    """The room's policy server has to sign the event. Nothing is committed."""

    def __init__(self, pdu: Pdu, version: RoomVersion, policy: PolicyServer) -> None:
        super().__init__(policy.server)
        self.pdu = pdu
        self.version = version
        self.policy = policy


class OwnEvents:
    def __init__(
        self,
        server_name: str,
        store: RoomStore,
        writing: RoomWriting,
        signer: Callable[[], Signer],
        now_ms: Callable[[], int],
        observer: HomeserverObserver | None,
        policy_signing: PolicySigning,
    ) -> None:
        self._policy_signing = policy_signing
        self._store = store
        self._server_name = server_name
        self._writing = writing
        self._signer = signer
        self._now_ms = now_ms
        self._observer = observer
        self._waiting: dict[str, list[_Waiting]] = {}
        # One for each room in which something waits.
        self._workers = BackgroundTasks()
        self._is_closing = False

    async def send(self, room_id: str, event: NewEvent, transaction_id: str | None = None) -> Pdu:
        """A sender that stops waiting does not stop the event. With a transaction id that its sender has used
        in the room it is the event that was made then, whatever it says now."""
        if self._store.remembered_room(room_id) is None:
            _refuse_no_room(room_id)
        if self._is_closing:
            raise _stopping()
        waiting = self._waiting.get(room_id)
        if waiting is not None and len(waiting) >= MOST_WAITING:
            text = "Too many events wait for this room: send again later."
            raise limit_exceeded(text, 429, RETRY_AFTER_MS)
        one = _Waiting(event, transaction_id, asyncio.get_running_loop().create_future())
        if waiting is None:
            self._waiting[room_id] = [one]
            self._workers.spawn("own events", self._work_off(room_id))
        else:
            waiting.append(one)
        return await one.made

    @contextlib.asynccontextmanager
    async def create(
        self, version: RoomVersion, events: Sequence[NewEvent], room_id: str | None
    ) -> AsyncIterator[NewRoom]:
        """A room of these events. It is committed when the context ends."""
        first = events[0]
        assert first.type == "m.room.create", "a room begins with its create event"
        assert (room_id is None) == version.create_event_is_room_id, "the room version decides on the room id"
        content = {**first.content, "room_version": version.id}
        if version.creator_in_content:
            content["creator"] = first.sender
        template = Template(
            first.type, first.sender, content, self._time_of(first), room_id=room_id, state_key=""
        )
        while True:
            create = build(template, version, self._signer())
            if isinstance(create, CannotBuild):
                raise MatrixError("M_BAD_JSON", f"The room cannot be made: {create.problem}.")
            async with self._writing.session([create.room_id], None) as session:
                if create.room_id not in session.drafts:
                    yield await self._fill(session, create, version, events[1:])
                    return
            if room_id is not None:
                raise MatrixError("M_ROOM_IN_USE", "There is such a room already.", 409)
            # Asked for alike in the same millisecond, two rooms that are named by their first event would be
            # one.
            template = replace(template, origin_server_ts=template.origin_server_ts + 1)

    async def _fill(
        self, session: Session, create: Pdu, version: RoomVersion, events: Sequence[NewEvent]
    ) -> NewRoom:
        draft = await session.new_room(create.room_id, version)
        made = [await self._place(draft, create, None)]
        for event in events:
            made.append(await self._make(draft, event))  # noqa: PERF401 - each follows the one before
        return NewRoom(session.connection, made)

    async def prepare(self, room_id: str, event: NewEvent) -> dict[str, Any]:
        """The event as it would be made now, without hashes and signatures."""
        _refuse_no_room(room_id)
        async with self._writing.session([room_id], None) as session:
            draft = session.room(room_id)
            template = await self._template(draft, event)
            # It is another server's to sign; what the rules say does not depend on who has.
            pdu = build(template, draft.version, self._signer())
            if isinstance(pdu, CannotBuild):
                raise MatrixError("M_BAD_JSON", f"The event cannot be made: {pdu.problem}.")
            before = await draft.state_before(template.prev_events)
            _refuse(await draft.judge(Genuine(pdu), before, current=None))
        return as_event(template, draft.version)

    async def close(self) -> None:
        """Finish what has been begun, as far as that does not take too long."""
        self._is_closing = True
        await self._workers.drain(CLOSED_WITHIN)
        await self._workers.close()

    async def _work_off(self, room_id: str) -> None:
        batch: list[_Waiting] = []
        waiting = self._waiting[room_id]
        try:
            while waiting:
                batch = waiting[:AT_ONCE]
                del waiting[:AT_ONCE]
                await self._commit(room_id, batch)
        finally:
            del self._waiting[room_id]
            for one in (*batch, *waiting):
                if not one.made.done():
                    one.made.set_exception(_stopping())

    async def _commit(self, room_id: str, batch: Sequence[_Waiting]) -> None:
        """Those that the rules allow, together. One that they do not allow is no harm to the others."""
        try:
            made = await self._append(room_id, batch) or await self._write_in_session(room_id, batch)
        except _NeedsSignature as needed:
            if len(batch) > 1:
                for one in batch:
                    await self._commit(room_id, [one])
                return
            made = await self._write_signed(room_id, batch[0], needed)
        except Exception as failed:
            made = _refused(batch, failed)
        for number, one in enumerate(batch):
            if one.made.done():
                continue  # its sender waits no longer
            if number in made.refused:
                one.made.set_exception(made.refused[number])
            else:
                one.made.set_result(made.events[number])
        if self._observer is not None:
            for _ in range(made.new):
                self._observer.event_sent()

    async def _append(self, room_id: str, batch: Sequence[_Waiting]) -> _Made | None:
        """Messages are nearly always allowed and new, and then one statement is enough. None: it was not."""
        if any(one.event.state_key is not None or one.event.redacts is not None for one in batch):
            return None
        async with self._writing.head(room_id) as head:
            if head is None:
                return None
            # A refusal is for a session to give: the room may not be what this process remembers.
            try:
                made = await self._make_all(head.draft, batch, {})
            except _NeedsSignature:
                return None
            if made.refused or not await self._writing.append(head, sent=made.sent):
                return None
            return made

    async def _write_in_session(
        self, room_id: str, batch: Sequence[_Waiting], signed: Pdu | None = None
    ) -> _Made:
        async with self._writing.session([room_id], None) as session:
            draft = session.room(room_id)
            named = {one.sent for one in batch if one.sent is not None}
            before = await fetch_sent(session.connection, room_id, named)
            await draft.load(before.values())
            made = await self._make_all(draft, batch, before, signed)
            is_new = await insert_sent(session.connection, room_id, made.sent)
            assert is_new, "what was sent before has been looked up under the room's lock"
        return made

    async def _write_signed(self, room_id: str, one: _Waiting, needed: _NeedsSignature) -> _Made:
        """An event in a room with a policy server. It is asked while nothing is locked and no connection is
        held; if the room has another one by then, that one is asked."""
        for _ in range(ATTEMPTS):
            try:
                signed = await self._policy_signing.signed(needed.pdu, needed.version, needed.policy)
                return await self._write_in_session(room_id, [one], signed)
            except _NeedsSignature as again:
                needed = again
            except PeerRefused as refused:
                text = f"The room's policy server refuses it: {refused.text}"
                return _refused([one], MatrixError(refused.errcode or "M_FORBIDDEN", text, 403))
            except Exception as failed:
                return _refused([one], failed)
        text = "The room's policy server changes again and again: try later."
        return _refused([one], MatrixError("M_UNKNOWN", text, 503))

    async def _make_all(
        self,
        draft: RoomDraft,
        batch: Sequence[_Waiting],
        before: Mapping[TransactionKey, EventId],
        signed: Pdu | None = None,
    ) -> _Made:
        """`before` are events that were sent before with the same transaction ids, `signed` is the only
        event of the batch, as the room's policy server has signed it."""
        made = _Made()
        for number, one in enumerate(batch):
            earlier = None if one.sent is None else before.get(one.sent) or made.sent.get(one.sent)
            if earlier is not None:
                made.events[number] = draft.pdus[earlier]
                continue
            try:
                pdu = made.events[number] = await self._make(draft, one.event, signed)
            except MatrixError as refused:
                made.refused[number] = refused
                continue
            made.new += 1
            if one.sent is not None:
                made.sent[one.sent] = pdu.event_id
        return made

    async def _make(self, draft: RoomDraft, event: NewEvent, signed: Pdu | None = None) -> Pdu:
        policy = await draft.policy_server()
        if policy is not None and policy.server == self._server_name:
            policy = None
        if signed is not None and (policy is None or is_signed(signed, draft.version, policy)):
            # The room may have gone on since it was made.
            return await self._place(draft, signed, await draft.current())
        template = await self._template(draft, event)
        pdu = build(template, draft.version, self._signer())
        if isinstance(pdu, CannotBuild):
            raise MatrixError("M_BAD_JSON", f"The event cannot be sent: {pdu.problem}.")
        if policy is not None and needs_signature(pdu):
            before = await draft.state_before(pdu.prev_events)
            _refuse(await draft.judge(Genuine(pdu), before, current=None))
            raise _NeedsSignature(pdu, draft.version, policy)
        return await self._place(draft, pdu, None)

    async def _template(self, draft: RoomDraft, event: NewEvent) -> Template:
        prev_events = await self._prev_events(draft)
        before = await draft.state_before(prev_events)
        template = Template(
            event.type,
            event.sender,
            event.content,
            self._time_of(event),
            room_id=draft.room_id,
            state_key=event.state_key,
            redacts=event.redacts,
            prev_events=prev_events,
            prev_depths=[draft.pdus[event_id].depth for event_id in prev_events],
        )
        keys = selected(template, draft.version)
        return replace(
            template,
            auth_events=[event_id for key in keys if (event_id := before.state.get(key)) is not None],
        )

    def _time_of(self, event: NewEvent) -> int:
        return self._now_ms() if event.ts is None else event.ts

    async def _prev_events(self, draft: RoomDraft) -> Sequence[EventId]:
        """All ends of the graph, which makes them one; if they are too many, those furthest on."""
        ends = draft.extremities
        await draft.load(ends)
        if len(ends) <= MAX_OWN_PREV_EVENTS:
            return ends
        return sorted(ends, key=lambda event_id: -draft.pdus[event_id].depth)[:MAX_OWN_PREV_EVENTS]

    async def _place(self, draft: RoomDraft, pdu: Pdu, current: StateGroup | None) -> Pdu:
        """`current` is None where the event follows all ends of the room."""
        before = await draft.state_before(pdu.prev_events)
        verdict = await draft.judge(Genuine(pdu), before, current=current)
        _refuse(verdict)
        assert not isinstance(verdict, Dropped), "what is refused has been raised"
        # "Servers joined in the state before the event": who is banned by it still hears of it.
        draft.destinations[pdu.event_id] = frozenset(await draft.joined()) - {self._server_name}
        await draft.place(pdu, verdict, before)
        return pdu


def _stopping() -> MatrixError:
    return MatrixError("M_UNKNOWN", "This server is being stopped: send again later.", 503)


def _refused(batch: Sequence[_Waiting], problem: Exception) -> _Made:
    return _Made(refused=dict.fromkeys(range(len(batch)), problem))


def _refuse_no_room(room_id: str) -> None:
    """What no room can be called is not looked up: Postgres takes no text with NUL."""
    if not is_room_id(room_id):
        raise MatrixError("M_NOT_FOUND", "This server does not know that room.", 404)


def _refuse(verdict: Receipt) -> None:
    if not isinstance(verdict, Accepted):
        raise MatrixError("M_FORBIDDEN", f"The room's rules do not allow it: {verdict}", 403)
