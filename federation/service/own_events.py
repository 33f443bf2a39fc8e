"""Makes events of our own at the head of a room: a chain, unless the room has truly forked."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from federation.auth_rules import selected
from federation.errors import MatrixError, PeerError
from federation.identifiers import is_room_id
from federation.pdu import CannotBuild, EventId, Pdu, Signer, Template, build
from federation.pdu.builder import as_event
from federation.pdu.limits import MAX_OWN_PREV_EVENTS
from federation.peer_errors import PeerRefused
from federation.policy_server import needs_signature
from federation.receipt import Accepted, Dropped, Genuine, Receipt
from federation.room_version import RoomVersion
from federation.service.plain_speech import PlainSpeech
from federation.service.policy_signing import PolicySigning
from federation.service.room_commit import Plain
from federation.service.room_draft import RoomDraft
from federation.service.room_ports import InCreation, NewEvent, RoomObserver
from federation.service.room_store import RoomMemory, RoomStore
from federation.service.room_writing import RoomWriting, Session
from storage.sent_transactions import Sent, fetch_sent, insert_sent

AT_ONCE: Final = 50
"""How many events that wait for the same room share a commit."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    event: NewEvent
    transaction_id: str | None
    made: "asyncio.Future[Pdu]"

    @property
    def sent(self) -> Sent | None:
        """Under which name it is found when it is sent again."""
        return None if self.transaction_id is None else (self.event.sender, self.transaction_id)


@dataclass(slots=True)
class _Made:
    """What became of a batch, by the numbers in it. `new` are not those that had been sent before."""

    events: dict[int, Pdu]
    refused: dict[int, Exception]
    new: int


class _SentBefore(Exception):
    """Under one of the transaction ids something has been sent, or may have been. Nothing is committed."""


class OwnEvents:
    def __init__(
        self,
        server_name: str,
        store: RoomStore,
        writing: RoomWriting,
        signer: Callable[[], Signer],
        now_ms: Callable[[], int],
        observer: RoomObserver | None,
        policy_signing: PolicySigning,
    ) -> None:
        self._policy_signing = policy_signing
        self._store = store
        self._plain = PlainSpeech(store, signer, now_ms)
        self._server_name = server_name
        self._writing = writing
        self._signer = signer
        self._now_ms = now_ms
        self._observer = observer
        self._waiting: dict[str, list[_Waiting]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def send(self, room_id: str, event: NewEvent, transaction_id: str | None = None) -> Pdu:
        """Whoever stops waiting does not stop the event. Under a transaction id that its sender has used in
        the room it is the event that was made then, whatever it says now."""
        if self._store.remembered_room(room_id) is None:
            _refuse_no_room(room_id)
        made: asyncio.Future[Pdu] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(room_id, []).append(_Waiting(event, transaction_id, made))
        if room_id not in self._tasks:
            self._tasks[room_id] = asyncio.create_task(self._work_off(room_id))
        return await made

    def make_ready(self, room_id: str, event: NewEvent) -> None:
        """What will perhaps be sent in a moment, if nothing else is being said in the room. Nobody is told,
        and nothing is written."""
        memory = self._store.remembered_room(room_id)
        if memory is not None and room_id not in self._tasks:
            self._plain.make_ready(memory, event)

    async def create(
        self,
        version: RoomVersion,
        events: Sequence[NewEvent],
        room_id: str | None,
        in_commit: InCreation | None = None,
    ) -> list[Pdu]:
        """A room of these events."""
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
                    return await self._fill(session, create, version, events[1:], in_commit)
            if room_id is not None:
                raise MatrixError("M_ROOM_IN_USE", "There is such a room already.", 409)
            # Asked for alike in the same millisecond, two rooms that are named by their first event would be
            # one.
            template = replace(template, origin_server_ts=template.origin_server_ts + 1)

    async def _fill(
        self,
        session: Session,
        create: Pdu,
        version: RoomVersion,
        events: Sequence[NewEvent],
        in_commit: InCreation | None,
    ) -> list[Pdu]:
        draft = await session.new_room(create.room_id, version)
        made = [await self._place(draft, Genuine(create))]
        for event in events:
            made.append(await self._make(draft, event))  # noqa: PERF401 - each follows the one before
        if in_commit is not None:
            await in_commit(session.connection, create.room_id)
        return made

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
        """Finish what has been begun."""
        while self._tasks:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _work_off(self, room_id: str) -> None:
        try:
            while batch := self._waiting[room_id][:AT_ONCE]:
                del self._waiting[room_id][:AT_ONCE]
                await self._commit(room_id, batch)
        finally:
            del self._waiting[room_id], self._tasks[room_id]

    async def _commit(self, room_id: str, batch: Sequence[_Waiting]) -> None:
        """Those that the rules allow, together. One that they do not allow is no harm to the others."""
        try:
            try:
                made = await self._say(room_id, batch) or await self._try_to_commit(
                    room_id, batch, has_repeated=False
                )
            except _SentBefore:
                made = await self._try_to_commit(room_id, batch, has_repeated=True)
        except Exception as failed:
            # Whoever waits for an event gets to know.
            made = _Made({}, dict.fromkeys(range(len(batch)), failed), 0)
        for number, one in enumerate(batch):
            if one.made.done():
                continue  # whoever waited for it has gone
            if number in made.refused:
                one.made.set_exception(made.refused[number])
            else:
                one.made.set_result(made.events[number])
        if self._observer is not None:
            for _ in range(made.new):
                self._observer.event_sent()

    async def _say(self, room_id: str, batch: Sequence[_Waiting]) -> "_Made | None":
        """Messages are nearly always allowed and new, and then one statement is enough. None: it was not."""
        events = [one.event for one in batch]
        if any(event.state_key is not None or event.redacts is not None for event in events):
            return None

        def speak(memory: RoomMemory) -> Plain | None:
            return self._plain.speak(memory, events, [one.sent for one in batch])

        plain = await self._writing.say_plainly(room_id, speak)
        if plain is not None:
            return _Made(dict(enumerate(plain)), {}, len(plain)) if plain else None
        return await self._say_the_long_way(room_id, batch)

    async def _say_the_long_way(self, room_id: str, batch: Sequence[_Waiting]) -> "_Made | None":
        made = _Made({}, {}, 0)
        drafts: list[RoomDraft] = []

        async def make(draft: RoomDraft) -> dict[Sent, EventId] | None:
            sent: dict[Sent, EventId] = {}
            for number, one in enumerate(batch):
                if one.sent is not None and one.sent in sent:
                    made.events[number] = draft.pdus[sent[one.sent]]
                    continue
                try:
                    pdu = made.events[number] = await self._make(draft, one.event)
                except (MatrixError, PeerError):
                    return None  # the room may not be what this process remembers
                made.new += 1
                if one.sent is not None:
                    sent[one.sent] = pdu.event_id
            drafts.append(draft)
            return sent

        if not await self._writing.say(room_id, make):
            return None
        for pdu in made.events.values():
            await self._plain.learn(drafts[0], pdu)
        return made

    async def _try_to_commit(self, room_id: str, batch: Sequence[_Waiting], *, has_repeated: bool) -> "_Made":
        """Hardly ever is something sent again: what was sent before is looked up once it turns out that
        something was, and all is made anew. Raises `_SentBefore` then, unless it `has_repeated`."""
        async with self._writing.session([room_id], None) as session:
            draft = session.room(room_id)
            sent: dict[Sent, EventId] = {}
            if has_repeated:
                named = {one.sent for one in batch if one.sent is not None}
                sent = await fetch_sent(session.connection, room_id, named)
                await draft.load(sent.values())
            sent_now: dict[Sent, EventId] = {}
            made = _Made({}, {}, 0)
            for number, one in enumerate(batch):
                if one.sent is not None and one.sent in sent:
                    made.events[number] = draft.pdus[sent[one.sent]]
                    continue
                try:
                    pdu = made.events[number] = await self._make(draft, one.event)
                except (MatrixError, PeerError) as refused:
                    if one.sent is not None and not has_repeated:
                        raise _SentBefore from refused  # it may have been allowed when it was sent
                    made.refused[number] = refused
                    continue
                made.new += 1
                if one.sent is not None:
                    sent[one.sent] = sent_now[one.sent] = pdu.event_id
            if not await insert_sent(session.connection, room_id, sent_now):
                assert not has_repeated, "what was sent before has been looked up under the room's lock"
                raise _SentBefore
        return made

    async def _make(self, draft: RoomDraft, event: NewEvent) -> Pdu:
        template = await self._template(draft, event)
        pdu = build(template, draft.version, self._signer())
        if isinstance(pdu, CannotBuild):
            raise MatrixError("M_BAD_JSON", f"The event cannot be sent: {pdu.problem}.")
        return await self._place(draft, Genuine(await self._with_policy(draft, pdu)))

    async def _with_policy(self, draft: RoomDraft, pdu: Pdu) -> Pdu:
        """The event as the room's policy server has signed it, if the room has one. Its refusal is ours."""
        policy = await draft.policy_server()
        if policy is None or policy.server == self._server_name or not needs_signature(pdu):
            return pdu
        try:
            return await self._policy_signing.signed(pdu, draft.version, policy)
        except PeerRefused as refused:
            raise MatrixError(
                refused.errcode or "M_FORBIDDEN", f"The room's policy server refuses it: {refused.text}", 403
            ) from refused

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

    async def _place(self, draft: RoomDraft, genuine: Genuine) -> Pdu:
        pdu = genuine.pdu
        before = await draft.state_before(pdu.prev_events)
        verdict = await draft.judge(genuine, before, current=None)
        _refuse(verdict)
        assert not isinstance(verdict, Dropped), "what is refused has been raised"
        # "Servers joined in the state before the event": who is banned by it still hears of it.
        draft.destinations[pdu.event_id] = frozenset(await draft.joined()) - {self._server_name}
        await draft.place(pdu, verdict, before)
        return pdu


def _refuse_no_room(room_id: str) -> None:
    """What no room can be called is not looked up: Postgres takes no text with NUL."""
    if not is_room_id(room_id):
        raise MatrixError("M_NOT_FOUND", "This server does not know that room.", 404)


def _refuse(verdict: Receipt) -> None:
    if not isinstance(verdict, Accepted):
        raise MatrixError("M_FORBIDDEN", f"The room's rules do not allow it: {verdict}", 403)
