"""Reads what happens in the rooms, from a durable cursor: events of agents, and who comes and goes."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.connectors.cis import examination
from bridge.connectors.cis.act import Act, CisObserver, Verdict, subject_of, verdict_of
from bridge.connectors.cis.effects import Effect, News, effect_of, taken_together
from bridge.connectors.cis.events import NAMESPACE, Registered, TaskRequest, Unregistered
from bridge.connectors.cis.examination import Examined, Kept, Taken
from bridge.connectors.cis.malformed_request import malformed_request
from bridge.connectors.cis.peer import Peer
from bridge.connectors.cis.refusals import Forbidden, InvalidPayload
from bridge.connectors.cis.rooms import AgentRoom, parse_room_id
from bridge.connectors.cis.service.contacting import Contacting
from bridge.connectors.cis.service.learning import Learning
from bridge.connectors.cis.service.speech import Speech
from bridge.connectors.cis.service.taking import Taking
from bridge.connectors.cis.settings import NODE_USER, CisSettings
from bridge.connectors.cis.speaker import wrong_speaker
from bridge.matrix_stream import Subscription
from federation.bounded_cache import BoundedCache
from federation.errors import MatrixError
from federation.identifiers import domain
from federation.room_event import EventHead, RoomEvent, StreamedEvent
from storage.connecting import ConnectionLost
from storage.consumers import TakenOver

AT_ONCE: Final = 200
MOST_FORESEEN: Final = 8
"""Events that are looked at before they come: of those that are written at the same time the newest."""
_MEMBER: Final = "m.room.member"


@dataclass(frozen=True, slots=True)
class _Read:
    """What follows from an entry of the stream."""

    position: int
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class _Looked:
    """What an event says, and what follows if it is taken. It holds for this very content, of a peer as it is
    now: an id alone does not say which content was kept under it."""

    content: Mapping[str, Any]
    peer: Peer | None
    examined: Examined
    effect: Effect | None


def concerns(event: EventHead, settings: CisSettings) -> bool:
    """What others have said in rooms of agents, and who comes and goes there."""
    if not settings.has_rooms or parse_room_id(event.room_id) is None:
        return False
    if event.type == _MEMBER:
        return True
    return event.type.startswith(NAMESPACE) and domain(event.sender) != settings.node_id


class Incoming:
    """`came` is called with a node that has come into a room of this one."""

    def __init__(
        self,
        settings: CisSettings,
        taking: Taking,
        learning: Learning,
        contacting: Contacting,
        speech: Speech,
        observer: CisObserver,
        *,
        came: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._taking = taking
        self._learning = learning
        self._contacting = contacting
        self._speech = speech
        self._observer = observer
        self._came = came
        self._foreseen: BoundedCache[str, _Looked] = BoundedCache(MOST_FORESEEN)

    def foresee(self, event: RoomEvent) -> None:
        """It may come. Nobody is told of it, and nothing counts before it does."""
        if event.type != _MEMBER:
            peer = self._settings.peer(domain(event.sender) or "")
            looked = self._looked_at(event, peer)
            self._foreseen.put(event.event_id, looked)
            if looked.effect is not None:
                self._taking.foresee(looked.effect)

    async def read(self, subscription: Subscription) -> None:
        """For ever. Raises `TakenOver` when another process reads, and `ConnectionLost`."""
        while True:
            await self.take(subscription, await subscription.next(AT_ONCE))

    async def take(self, subscription: Subscription, entries: Sequence[StreamedEvent]) -> None:
        """These entries. One that nobody foresaw is told of, and does not hold up what follows it."""
        try:
            await self._take(subscription, entries)
        except (TakenOver, ConnectionLost):
            raise
        except Exception as error:
            if len(entries) > 1:
                for entry in entries:
                    await self.take(subscription, [entry])
                return
            [entry] = entries
            self._observer.problem(f"The event {entry.event.event_id} was not worked on.", error)
            await self._taking.take_read([], subscription, entry.position)

    async def _take(self, subscription: Subscription, entries: Sequence[StreamedEvent]) -> None:
        if len(entries) == 1:
            [entry] = entries
            found = await self._look_at(entry)
            if len(found) < 2:
                await self._taking.take_read(found, subscription, entry.position)
                return
        read = [_Read(entry.position, tuple(await self._look_at(entry))) for entry in entries]
        while read:
            count = taken_together([effect for one in read for effect in one.effects])
            # An entry is taken whole: of those that are cut off here, the first one begins the next round.
            together, total = 0, 0
            for one in read:
                total += len(one.effects)
                if total > count:
                    break
                together += 1
            batch, read = read[:together], read[together:]
            effects = [effect for one in batch for effect in one.effects]
            await self._taking.take_read(effects, subscription, batch[-1].position)

    # -- one entry --

    async def _look_at(self, entry: StreamedEvent) -> list[Effect]:
        """The subscription has passed over what does not concern it."""
        event = entry.event
        if entry.kind == "unset":
            return []
        if event.type != _MEMBER:
            return [] if event.is_redacted else self._look_at_event(event)
        room = parse_room_id(event.room_id)
        assert room is not None, "what happens elsewhere does not concern it"
        if entry.kind == "invite":
            self._look_at_invite(event, room)
            return []
        return await self._look_at_member(event, room)

    def _look_at_event(self, event: RoomEvent) -> list[Effect]:
        origin = domain(event.sender) or ""
        peer = self._settings.peer(origin)
        looked = self._foreseen.get(event.event_id)
        if looked is None or looked.content is not event.content or looked.peer is not peer:
            looked = self._looked_at(event, peer)
        else:
            self._foreseen.forget(event.event_id)
        examined = looked.examined
        if isinstance(examined, Taken):
            assert looked.effect is not None, "something follows from what is taken"
            self._note(event, origin, Verdict.TAKEN, subject_of(examined.event))
            return [looked.effect]
        if isinstance(examined, Kept):
            self._note(event, origin, Verdict.KEPT)
            return []
        self._note(event, origin, verdict_of(examined), detail=str(examined))
        if isinstance(examined, InvalidPayload) and event.type == TaskRequest.TYPE:
            return self._answer_malformed(event, origin, examined)
        return []

    def _looked_at(self, event: RoomEvent, peer: Peer | None) -> _Looked:
        examined = examination.examine_pdu(
            event.type, event.content, event.room_id, event.sender, peer, self._settings.node_id
        )
        effect = None
        if isinstance(examined, Taken):
            refusal = _wrong_entry(examined, event) or wrong_speaker(examined, event.sender)
            if refusal is None:
                assert peer is not None, "of nobody else anything is taken"
                effect = effect_of(examined, peer, self._settings)
            else:
                examined = refusal
        return _Looked(event.content, peer, examined, effect)

    def _answer_malformed(self, event: RoomEvent, origin: str, refusal: InvalidPayload) -> list[Effect]:
        answered = malformed_request(event.content, origin, refusal, self._settings)
        return [] if answered is None else [answered]

    # -- who comes and goes --

    def _look_at_invite(self, event: RoomEvent, room: AgentRoom) -> None:
        """Into a room of the peer itself; the invite is accepted with the join that follows."""
        if event.state_key == self._settings.node_user and domain(event.sender) == room.node_id:
            self._contacting.met(room.node_id)

    async def _look_at_member(self, event: RoomEvent, room: AgentRoom) -> list[Effect]:
        user, membership = event.state_key or "", event.content.get("membership")
        node_id = domain(user)
        if node_id == self._settings.node_id:
            if membership != "join":
                self._speech.gone(event.room_id, user)
            if user != self._settings.node_user or room.node_id == self._settings.node_id:
                return []
            if membership != "join":
                self._contacting.lost(room.node_id, event.room_id)
                return []
            return await self._learn(room)
        is_ours = room.node_id == self._settings.node_id
        if is_ours and membership == "join" and self._settings.access(node_id or "") is not None:
            assert node_id is not None, "nobody is known by no name"
            self._contacting.met(node_id)
            if user == f"@{NODE_USER}:{node_id}":
                self._came(node_id)
        return []

    async def _learn(self, room: AgentRoom) -> list[Effect]:
        """ "a node that joins learns every agent from the room itself\""""
        access = self._settings.access(room.node_id)
        if access is None:
            return []
        try:
            return [News(said) for said in await self._learning.read(access.peer, room)]
        except MatrixError as refused:
            self._observer.problem(f"The agents of {room.node_id} could not be learned.", refused)
            return []

    def _note(
        self,
        event: RoomEvent,
        origin: str,
        verdict: Verdict,
        subject: str | None = None,
        detail: str | None = None,
    ) -> None:
        """A moment later, that is while Postgres writes what was taken."""
        act = Act(origin, event.type, verdict, event.sender, event.room_id, subject or event.event_id, detail)
        asyncio.get_running_loop().call_soon(self._observer.acted, act)


def _wrong_entry(taken: Taken, event: RoomEvent) -> Forbidden | None:
    """An entry of the state is about the agent whose entry it is."""
    said = taken.event
    if event.state_key is None:
        return None
    if not isinstance(said, Registered | Unregistered) or said.agent_id != event.state_key:
        return Forbidden("The state key does not name the agent.")
    return None
