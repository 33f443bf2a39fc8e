"""Reads the rooms of agents from a durable position in the stream: agent events and memberships."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from bridge.agents.address import AgentAddress
from bridge.connectors.cis import examination
from bridge.connectors.cis.effects import Effect, RejectTask, UpdateAgent, effect_of
from bridge.connectors.cis.event_record import EventRecord, Verdict, subject_of, verdict_of
from bridge.connectors.cis.examination import UnknownEvent, ValidEvent, check_user
from bridge.connectors.cis.protocol import event_fields
from bridge.connectors.cis.protocol.events import NAMESPACE, Registered, TaskPayload, TaskRequest, Unregistered
from bridge.connectors.cis.protocol.json_values import problem_of
from bridge.connectors.cis.protocol.refusals import Forbidden, InvalidPayload
from bridge.connectors.cis.protocol.rooms import AgentRoom, parse_room_id
from bridge.connectors.cis.service.discovery import AgentDiscovery, RoomJoiner
from bridge.connectors.cis.service.dispatch import EffectDispatcher
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.service.sender import RoomSender
from bridge.connectors.cis.settings import CisSettings
from bridge.matrix.ghost import NODE_USER
from bridge.tasks.errors import ErrorCode, TaskError
from federation.events.room_event import RoomEvent, StreamedEvent
from federation.matrix.errors import MatrixError
from federation.matrix.identifiers import domain, has_valid_length
from federation.stream.event_stream import Subscription
from storage.connect import ConnectionLost
from storage.rooms.stream import ReaderReplaced

BATCH_SIZE: Final = 200
_MEMBER: Final = "m.room.member"


def concerns(event: RoomEvent, settings: CisSettings) -> bool:
    """Return whether the event is a membership, or an agent event of another server, in a room of agents."""
    if not settings.has_rooms or parse_room_id(event.room_id) is None:
        return False
    if event.type == _MEMBER:
        return True
    return event.type.startswith(NAMESPACE) and domain(event.sender) != settings.node_id


class RoomReader:
    """Reads the stream in the leader. `on_joined` is called with a node that has joined a room of this
    one."""

    def __init__(
        self,
        settings: CisSettings,
        dispatcher: EffectDispatcher,
        discovery: AgentDiscovery,
        joiner: RoomJoiner,
        room_sender: RoomSender,
        observer: CisObserver,
        *,
        on_joined: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._dispatcher = dispatcher
        self._discovery = discovery
        self._joiner = joiner
        self._room_sender = room_sender
        self._observer = observer
        self._on_joined = on_joined

    async def read(self, subscription: Subscription) -> None:
        """Read without end. Raises `ReaderReplaced` when another process takes over reading, and
        `ConnectionLost`."""
        while True:
            for entry in await subscription.next(BATCH_SIZE):
                await self.handle(subscription, entry)

    async def handle(self, subscription: Subscription, entry: StreamedEvent) -> None:
        """Carry out the effects of an entry and advance the reader's position. An unexpected error is
        reported and the entry is skipped, so that it does not block the entries after it."""
        try:
            effects = await self._effects(entry)
            await self._dispatcher.dispatch_read(effects, subscription, entry.position)
        except (ReaderReplaced, ConnectionLost):
            raise
        except Exception as error:
            self._observer.report_problem(f"Failed to handle the event {entry.event.event_id}.", error)
            await self._dispatcher.dispatch_read([], subscription, entry.position)

    # -- one entry --

    async def _effects(self, entry: StreamedEvent) -> list[Effect]:
        event = entry.event
        if entry.kind == "unset":
            return []
        if event.type != _MEMBER:
            return [] if event.is_redacted else self._effects_of_event(event)
        room = parse_room_id(event.room_id)
        assert room is not None, "the subscription only has events of rooms of agents"
        if entry.kind == "invite":
            self._handle_invite(event, room)
            return []
        return await self._effects_of_membership(event, room)

    def _effects_of_event(self, event: RoomEvent) -> list[Effect]:
        origin = domain(event.sender) or ""
        peer = self._settings.peer(origin)
        result = examination.examine_pdu(
            event.type, event.content, event.room_id, event.sender, peer, self._settings.node_id
        )
        if isinstance(result, ValidEvent):
            refusal = _check_state_key(result, event) or check_user(result, event.sender)
            if refusal is None:
                assert peer is not None, "an event of an unknown peer is never valid"
                effect = effect_of(result, peer, self._settings)
                self._record(event, origin, Verdict.TAKEN, subject_of(result.event))
                return [effect]
            result = refusal
        if isinstance(result, UnknownEvent):
            self._record(event, origin, Verdict.KEPT)
            return []
        self._record(event, origin, verdict_of(result), detail=str(result))
        if isinstance(result, InvalidPayload) and event.type == TaskRequest.TYPE:
            rejection = reject_malformed_request(event.content, origin, result, self._settings)
            return [] if rejection is None else [rejection]
        return []

    # -- memberships --

    def _handle_invite(self, event: RoomEvent, room: AgentRoom) -> None:
        """Join the peer's own room to which it invites this node: the pending join then accepts the
        invite."""
        if event.state_key == self._settings.node_user and domain(event.sender) == room.node_id:
            self._joiner.peer_active(room.node_id)

    async def _effects_of_membership(self, event: RoomEvent, room: AgentRoom) -> list[Effect]:
        user, membership = event.state_key or "", event.content.get("membership")
        node_id = domain(user)
        if node_id == self._settings.node_id:
            if membership != "join":
                self._room_sender.user_left(event.room_id, user)
            if user != self._settings.node_user or room.node_id == self._settings.node_id:
                return []
            if membership != "join":
                self._joiner.room_left(room.node_id, event.room_id)
                return []
            return await self._discover(room)
        is_own_room = room.node_id == self._settings.node_id
        if is_own_room and membership == "join" and self._settings.access(node_id or "") is not None:
            assert node_id is not None, "a peer has a name"
            self._joiner.peer_active(node_id)
            if user == f"@{NODE_USER}:{node_id}":
                self._on_joined(node_id)
        return []

    async def _discover(self, room: AgentRoom) -> list[Effect]:
        """ "a node that joins learns every agent from the room itself\""""
        access = self._settings.access(room.node_id)
        if access is None:
            return []
        try:
            return [UpdateAgent(update) for update in await self._discovery.read(access.peer, room)]
        except MatrixError as error:
            self._observer.report_problem(f"Failed to load the agents of {room.node_id}.", error)
            return []

    def _record(
        self, event: RoomEvent, origin: str, verdict: Verdict, subject: str | None = None, detail: str | None = None
    ) -> None:
        """Record the event in the next iteration of the event loop, while Postgres writes its effects."""
        subject = subject or event.event_id
        record = EventRecord(origin, event.type, verdict, event.sender, event.room_id, subject, detail)
        asyncio.get_running_loop().call_soon(self._observer.record, record)


def _check_state_key(valid: ValidEvent, event: RoomEvent) -> Forbidden | None:
    """Return a refusal if the event is state whose key is not the agent that it reports on."""
    agent_event = valid.event
    if event.state_key is None:
        return None
    if not isinstance(agent_event, Registered | Unregistered) or agent_event.agent_id != event.state_key:
        return Forbidden("The state key does not name the agent.")
    return None


_LONGEST: Final = 300


def reject_malformed_request(
    content: Mapping[str, Any], node_id: str, refusal: InvalidPayload, settings: CisSettings
) -> RejectTask | None:
    """Return the rejection of a malformed request from `node_id`; None if its request id or requester cannot
    be read, or the requester is an agent of another node."""
    inner = content.get("payload")
    fields = inner if "request_id" not in content and isinstance(inner, dict) else content
    request_id, requester = fields.get("request_id"), _address(fields.get("from_agent"))
    if not isinstance(request_id, str) or not request_id or not has_valid_length(request_id):
        return None
    if problem_of(request_id) is not None or requester is None or requester.node_id != node_id:
        return None
    to_agent = _address(fields.get("to_agent")) or settings.node_address
    event = TaskRequest(
        request_id=request_id,
        from_agent=requester,
        to_agent=to_agent,
        task=TaskPayload(task_id=request_id, prompt=""),
        timestamp=event_fields.from_milliseconds(0),
    )
    error = TaskError(ErrorCode.INVALID_PAYLOAD, str(refusal)[:_LONGEST], {"field": refusal.field[:_LONGEST]})
    return RejectTask(event, error, settings.main_namespace, node_id)


def _address(value: Any) -> AgentAddress | None:
    if not isinstance(value, str):
        return None
    address = AgentAddress.parse(value)
    return address if isinstance(address, AgentAddress) else None
