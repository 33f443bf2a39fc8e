"""What is said again and again: messages of a sender and a type that the rules have allowed before, while the
room's state is the very same. Everything else is made the long way, by `OwnEvents`.

Such a message can be made ready before it is known whether it will be said, while Postgres writes what it
depends on: nobody is told of it, and nothing of it is remembered as true."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from federation.auth_rules import is_judged_by_name
from federation.bounded_cache import BoundedCache
from federation.known_event import KnownEvent
from federation.new_event import NewEvent
from federation.pdu import EventId, Pdu, Signer
from federation.pdu.builder import depth_after
from federation.pdu.message import Frame, frame_of, message
from federation.policy_server import POLICY
from federation.service.room_commit import Plain
from federation.service.room_draft import RoomDraft
from federation.service.room_store import RoomMemory, RoomStore
from storage.sent_transactions import Sent

MOST_REMEMBERED: Final = 5_000
MOST_READY: Final = 8
"""Rooms for which a message is kept that was made and may never be said."""
READY_FOR_MS: Final = 1_000
"""Its time is the one at which it was made."""


@dataclass(frozen=True, slots=True)
class _Allowed:
    frame: Frame
    destinations: frozenset[str]
    rejections: int
    """How many there had been. It counts until there is another one: an event of which the place was unknown
    may be judged anew where it stands."""


@dataclass(frozen=True, slots=True)
class _Ready:
    content: Mapping[str, Any]
    frame: Frame
    signer: Signer
    event: KnownEvent


class PlainSpeech:
    def __init__(self, store: RoomStore, signer: Callable[[], Signer], now_ms: Callable[[], int]) -> None:
        self._store = store
        self._signer = signer
        self._now_ms = now_ms
        # By the state, the sender and the type. A state belongs to one room and never changes.
        self._allowed: BoundedCache[tuple[int, str, str], _Allowed] = BoundedCache(MOST_REMEMBERED)
        # By the room. Of two that follow the same event only one can be said as it is.
        self._ready: BoundedCache[str, _Ready] = BoundedCache(MOST_READY)

    async def learn(self, draft: RoomDraft, pdu: Pdu) -> None:
        """A message that was made the long way, and allowed."""
        before = draft.known[pdu.event_id].state_before
        current = await draft.current()
        if (
            before != current.id
            or not is_judged_by_name(pdu.type)
            # A policy server is asked each time.
            or POLICY in current.state
        ):
            return
        frame = frame_of(pdu, draft.version)
        if frame is not None:
            # "Servers joined in the state before the event" are the same as well.
            allowed = _Allowed(frame, draft.destinations[pdu.event_id], self._store.rejections)
            self._allowed.put((before, pdu.sender, pdu.type), allowed)

    def make_ready(self, memory: RoomMemory, event: NewEvent) -> None:
        """What will perhaps be said in a moment. It is used for this very content, if the room stands where
        it stands now."""
        room_id = memory.view.room_id
        known = self._ready.get(room_id)
        if known is not None:
            if self._is_new(known) and known.event.pdu.prev_events == memory.view.forward_extremities:
                return
            self._ready.forget(room_id)
        plain = self.speak(memory, [event], [None])
        allowed = self._allowed.get((memory.view.state_group, event.sender, event.type))
        if plain is not None and allowed is not None and event.ts is None:
            ready = _Ready(event.content, allowed.frame, self._signer(), plain.events[0])
            self._ready.put(room_id, ready)

    def _is_new(self, ready: _Ready) -> bool:
        return 0 <= self._now_ms() - ready.event.pdu.origin_server_ts <= READY_FOR_MS

    def _made_before(
        self, room_id: str, event: NewEvent, frame: Frame, last: EventId, signer: Signer
    ) -> KnownEvent | None:
        """The same message at the same place, if it was made ready. It is not kept any longer."""
        ready = self._ready.get(room_id)
        if ready is None or ready.content is not event.content:
            return None
        self._ready.forget(room_id)
        is_same = (
            # It belongs to one state of the room, one sender and one type.
            ready.frame is frame
            and ready.event.pdu.prev_events == (last,)
            and ready.signer == signer
            and event.ts is None
            and self._is_new(ready)
        )
        return ready.event if is_same else None

    def speak(
        self, memory: RoomMemory, events: Sequence[NewEvent], names: Sequence[Sent | None]
    ) -> Plain | None:
        """The events, one after the other. None if one of them has to be made the long way."""
        view = memory.view
        if len(view.forward_extremities) != 1:
            return None
        (last,) = view.forward_extremities
        end = self._store.remembered_event(last)
        if end is None or end.state_after != view.state_group:
            return None
        signer, depth = self._signer(), end.pdu.depth
        made: list[KnownEvent] = []
        sent: dict[Sent, EventId] = {}
        destinations = []
        for event, name in zip(events, names, strict=True):
            allowed = self._allowed.get((view.state_group, event.sender, event.type))
            if (
                allowed is None
                or allowed.rejections != self._store.rejections
                or event.state_key is not None
                or event.redacts is not None
                or name in sent
            ):
                return None
            depth = depth_after((depth,))
            known = self._made_before(view.room_id, event, allowed.frame, last, signer)
            if known is None:
                ts = self._now_ms() if event.ts is None else event.ts
                pdu = message(allowed.frame, event.content, (last,), depth, ts, signer)
                if pdu is None:
                    return None
                # The state after a message is the state before it.
                known = KnownEvent(pdu, "accepted", None, view.state_group, view.state_group)
            made.append(known)
            last = known.pdu.event_id
            destinations.append(allowed.destinations)
            if name is not None:
                sent[name] = last
        return Plain(made, sent, destinations)
