"""Reads what happens in the rooms, from a durable cursor: events of agents, and who comes and goes."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.connectors.cis import examination
from bridge.connectors.cis.acts import Act, Verdict, subject_of, verdict_of
from bridge.connectors.cis.effects import Effect, News, NotAsked, effect_of
from bridge.connectors.cis.examination import Kept, Taken, wrong_speaker
from bridge.connectors.cis.protocol import event_fields as timestamps
from bridge.connectors.cis.protocol.events import (
    NAMESPACE,
    Registered,
    TaskPayload,
    TaskRequest,
    Unregistered,
)
from bridge.connectors.cis.protocol.json_values import problem_of
from bridge.connectors.cis.protocol.refusals import Forbidden, InvalidPayload
from bridge.connectors.cis.protocol.rooms import AgentRoom, parse_room_id
from bridge.connectors.cis.service.discovery import Contacting, Learning
from bridge.connectors.cis.service.dispatch import Taking
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.service.sender import Speech
from bridge.connectors.cis.settings import CisSettings
from bridge.matrix.ghost import NODE_USER
from bridge.tasks.errors import ErrorCode, TaskError
from federation.events.room_event import RoomEvent, StreamedEvent
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain, has_valid_length
from federation.stream.event_stream import Subscription
from storage.connect import ConnectionLost
from storage.rooms.stream import ReaderReplaced

AT_ONCE: Final = 200
_MEMBER: Final = "m.room.member"


def concerns(event: RoomEvent, settings: CisSettings) -> bool:
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

    async def read(self, subscription: Subscription) -> None:
        """For ever. Raises `ReaderReplaced` when another process reads, and `ConnectionLost`."""
        while True:
            for entry in await subscription.next(AT_ONCE):
                await self.take(subscription, entry)

    async def take(self, subscription: Subscription, entry: StreamedEvent) -> None:
        """What follows from an entry, and that it was read. An entry that fails unexpectedly is reported, and
        does not hold up what follows it."""
        try:
            effects = await self._look_at(entry)
            await self._taking.take_read(effects, subscription, entry.position)
        except (ReaderReplaced, ConnectionLost):
            raise
        except Exception as error:
            self._observer.problem(f"The event {entry.event.event_id} was not worked on.", error)
            await self._taking.take_read([], subscription, entry.position)

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
        examined = examination.examine_pdu(
            event.type, event.content, event.room_id, event.sender, peer, self._settings.node_id
        )
        if isinstance(examined, Taken):
            refusal = _wrong_entry(examined, event) or wrong_speaker(examined, event.sender)
            if refusal is None:
                assert peer is not None, "of nobody else anything is taken"
                effect = effect_of(examined, peer, self._settings)
                self._note(event, origin, Verdict.TAKEN, subject_of(examined.event))
                return [effect]
            examined = refusal
        if isinstance(examined, Kept):
            self._note(event, origin, Verdict.KEPT)
            return []
        self._note(event, origin, verdict_of(examined), detail=str(examined))
        if isinstance(examined, InvalidPayload) and event.type == TaskRequest.TYPE:
            return self._answer_malformed(event, origin, examined)
        return []

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


_LONGEST: Final = 300


def malformed_request(
    content: Mapping[str, Any], node_id: str, refusal: InvalidPayload, settings: CisSettings
) -> NotAsked | None:
    """None where it does not say enough, or says that somebody else has sent it."""
    inner = content.get("payload")
    fields = inner if "request_id" not in content and isinstance(inner, dict) else content
    request_id, asked_by = fields.get("request_id"), _address(fields.get("from_agent"))
    if not isinstance(request_id, str) or not request_id or not has_valid_length(request_id):
        return None
    if problem_of(request_id) is not None or asked_by is None or asked_by.node_id != node_id:
        return None
    to_agent = _address(fields.get("to_agent")) or settings.node_address
    event = TaskRequest(
        request_id=request_id,
        from_agent=asked_by,
        to_agent=to_agent,
        task=TaskPayload(task_id=request_id, prompt=""),
        timestamp=timestamps.of(0),
    )
    error = TaskError(ErrorCode.INVALID_PAYLOAD, str(refusal)[:_LONGEST], {"field": refusal.field[:_LONGEST]})
    return NotAsked(event, error, settings.main_namespace, node_id)


def _address(said: Any) -> AgentAddress | None:
    if not isinstance(said, str):
        return None
    address = AgentAddress.parse(said)
    return address if isinstance(address, AgentAddress) else None
