"""Offices that several nodes share: requests between members of different nodes, and the members of other
nodes.

Everything is in the office's room: the members, the Agent's seat, the requests and the responses. So every
node receives the same events, and after a disconnection all nodes reach the same state again.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from cachetools import LRUCache

from bridge.connectors.offices.federated.encryption import NodeCipher
from bridge.connectors.offices.federated.messages import TYPES, Cancel, Request, Response, Update, read
from bridge.connectors.offices.federated.shared_room import (
    NO_MEMBERS,
    OfficeMembers,
    is_allowed,
    members_of_room,
    read_allowed,
)
from bridge.connectors.offices.federated.transport import RemoteCallTransport
from bridge.connectors.offices.protocol.errors import BAD_REQUEST, TOO_MANY, Ack, flat_error
from bridge.connectors.offices.protocol.office import Member, OfficeName, parse_office_name
from bridge.connectors.offices.protocol.relay import RelayRequest
from bridge.connectors.offices.rooms.call_events import CALL
from bridge.connectors.offices.rooms.office_room import MEMBER, OFFICE, SEAT, local_office_content, member_address
from bridge.connectors.offices.rooms.rooms import RoomParts
from bridge.connectors.offices.server.calls import AnswerCallback, StopWaiting
from bridge.connectors.offices.server.memberships import OfficeUnreachable
from bridge.matrix.ghost import NoGhost
from bridge.people.message import MESSAGE
from federation.events.room_event import RoomEvent, StreamedEvent
from federation.matrix.errors import MatrixError, PeerError
from storage.concurrency import BackgroundTasks, KeyedLock
from storage.connect import ConnectionLost
from storage.offices import records as office_records
from storage.rooms.stream import ReaderReplaced

if TYPE_CHECKING:
    from bridge.connectors.offices.rooms.call_log import OfficeRecords
    from bridge.connectors.offices.server.server import SmcpServer


ROOM_TIMEOUT: Final = 30.0
"""Seconds to wait for joining a room of another node, and for the room to show the local members."""
REFRESH_INTERVAL: Final = 20.0
"""Seconds between two reloads of all rooms, which find changes that the stream did not deliver."""
UNUSED_SECONDS: Final = 60.0
"""Seconds after which an office without local members is dropped. A member that is about to join has done so
by then."""
MAX_MEMBERS: Final = 1_000
"""Member events of one office that are read."""
MEMBERSHIP_STATE: Final = frozenset({MEMBER, SEAT, OFFICE, "m.room.member"})
"""The types of state from which the members are derived."""


@dataclass(eq=False, slots=True)
class Room:
    """The room of a shared office. `members` are those of other nodes; `used_at` is when a local member was
    last known to be in the office or about to join it."""

    office_id: str
    room_id: str
    allowed: tuple[str, ...] = ()
    members: OfficeMembers = NO_MEMBERS
    used_at: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class SharedRooms:
    """The rooms of shared offices that have local members: joins them, and keeps track of the members of
    other nodes. All rooms are reloaded periodically between `start` and `close`."""

    def __init__(self, parts: RoomParts) -> None:
        self._parts = parts
        self._names = parts.settings.names
        self._server: SmcpServer | None = None
        self._by_office: dict[str, Room] = {}
        self._by_room: dict[str, Room] = {}
        self._enter_locks: KeyedLock[str] = KeyedLock()
        self._background = BackgroundTasks()

    def use_server(self, server: "SmcpServer") -> None:
        """Must be called once, before `start`."""
        self._server = server

    def start(self) -> None:
        self._background.supervise("shared offices", self._run)

    async def close(self) -> None:
        await self._background.close()

    def offices(self) -> Collection[str]:
        return tuple(self._by_office)

    def by_office(self, office_id: str) -> Room | None:
        return self._by_office.get(office_id)

    def by_room_id(self, room_id: str) -> Room | None:
        return self._by_room.get(room_id)

    async def enter(self, office_id: str) -> None:
        """Join the office's room and load its members; does nothing for an office that is not shared. Raises
        `OfficeUnreachable`."""
        name = parse_office_name(office_id, ())
        assert isinstance(name, OfficeName), "an office id is a valid name"
        if name.server is None and not self._parts.nodes:
            return
        async with self._enter_locks.hold(office_id):
            known = self._by_office.get(office_id)
            if known is not None:
                known.used_at = monotonic()
                return
            try:
                async with asyncio.timeout(ROOM_TIMEOUT):
                    room = Room(office_id, await self._parts.room_of(office_id))
                    if name.server is None:
                        await self._allow_other_nodes(room)
                    # From here on, changes of the room are read from the stream and cause a refresh.
                    self._by_room[room.room_id] = room
                    try:
                        await self._load(room)
                    except BaseException:
                        del self._by_room[room.room_id]
                        raise
                    if not is_allowed(self._names.node_user, room.allowed):
                        del self._by_room[room.room_id]
                        await self._parts.backend.leave(room.room_id, self._names.node_user)
                        raise OfficeUnreachable(f"{name.server} does not admit members of this node to the office")
            except TimeoutError:
                raise OfficeUnreachable(f"The office of {name.server or 'this node'} does not answer") from None
            except MatrixError as refused:
                raise OfficeUnreachable(f"The office cannot be joined: {refused.text}") from None
            except PeerError as problem:
                raise OfficeUnreachable(f"The office cannot be joined: {problem}") from None
            room.used_at = monotonic()
            self._by_office[office_id] = room

    async def refresh(self, room: Room) -> None:
        """Load the members again after the room's state has changed."""
        assert self._server is not None, _USE_SERVER
        before = room.members
        try:
            await self._load(room)
        except MatrixError as refused:
            self._parts.report(f"Failed to load the members of the office {room.office_id}.", refused)
            return
        if self._by_office.get(room.office_id) is room and room.members != before:
            await self._server.refresh_members(room.office_id)

    # -- internals --

    async def _allow_other_nodes(self, room: Room) -> None:
        """Write into the room who may be a member, for all nodes to read."""
        settings = self._parts.settings
        content = local_office_content(room.office_id, settings, self._parts.nodes)
        await self._parts.backend.set_state(room.room_id, settings.node_user, OFFICE, content)

    async def _load(self, room: Room) -> None:
        backend, room_id = self._parts.backend, room.room_id
        async with room.lock:
            office = await backend.state_event(room_id, OFFICE)
            room.allowed = () if office is None else read_allowed(office.content)
            member_events = [
                one
                for one in await backend.state(room_id, MEMBER)
                if one.content and is_allowed(one.sender, room.allowed)
            ][:MAX_MEMBERS]
            users = [one.sender for one in member_events]
            joined = {user for user in users if await backend.membership(room_id, user) == "join"}
            seat = await backend.state_event(room_id, SEAT)
            members = members_of_room(member_events, seat, joined, room.allowed)
            # This process knows its local members better than the room, which shows changes a moment later.
            remote = {user: one for user, one in members.by_user.items() if not self._names.is_ours(user)}
            room.members = OfficeMembers(remote)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_INTERVAL)
            for room in tuple(self._by_office.values()):
                try:
                    if self._is_used(room):
                        await self.refresh(room)
                    else:
                        await self._drop(room)
                except Exception as error:
                    self._parts.report(
                        f"Failed to load the members of the office {room.office_id}. It is tried again.", error
                    )

    def _is_used(self, room: Room) -> bool:
        assert self._server is not None, _USE_SERVER
        if self._server.has_local_members(room.office_id):
            room.used_at = monotonic()
        return monotonic() < room.used_at + UNUSED_SECONDS

    async def _drop(self, room: Room) -> None:
        """Stop keeping track of an office without local members."""
        assert self._server is not None, _USE_SERVER
        del self._by_office[room.office_id], self._by_room[room.room_id]
        await self._server.refresh_members(room.office_id)


NAME: Final = "offices-shared"
BATCH_SIZE: Final = 50
RETRY_DELAY: Final = 0.5
"""Seconds until the stream is read again after the database was unavailable."""
CLOSE_TIMEOUT: Final = 5.0
"""Seconds to wait until the rooms show that the local members have left."""
MAX_TASKS: Final = 1_000
"""Concurrent background tasks. Beyond that, messages of calls are not matched with calls."""
MATCH_POLL_INTERVAL: Final = 0.05
MATCH_TIMEOUT: Final = 5.0
MAX_HANDLED: Final = 10_000
MAX_REMOTE_REQUESTS: Final = 200
"""Unanswered requests of one member of another node, including those that are still being decrypted."""
_USE_SERVER: Final = "use_server was called"


class SharedOffices:
    """Offices of other nodes, and offices of this node that members of other nodes may join. Runs between
    `start` and `close`."""

    def __init__(self, parts: RoomParts, cipher: NodeCipher, records: "OfficeRecords") -> None:
        self._parts = parts
        self._names = parts.settings.names
        self._records = records
        self._transport = RemoteCallTransport(parts, cipher)
        self._server: SmcpServer | None = None
        self._rooms = SharedRooms(parts)
        self._handled: LRUCache[str, bool] = LRUCache(MAX_HANDLED)
        self._answering: dict[str, tuple[str, str]] = {}
        self._background = BackgroundTasks()
        self._reading = BackgroundTasks()
        # Set if several processes of the node serve the same offices: forward to the others what concerns
        # them.
        self._forward_room: Callable[[str], None] = lambda room_id: None
        self._forward_event: Callable[[RoomEvent], None] = lambda event: None

    def forward_with(self, forward_room: Callable[[str], None], forward_event: Callable[[RoomEvent], None]) -> None:
        """Must be called before `start`."""
        self._forward_room, self._forward_event = forward_room, forward_event

    def use_server(self, server: "SmcpServer") -> None:
        """Must be called once, before `start`."""
        self._server = server
        self._rooms.use_server(server)

    def start(self) -> None:
        self._reading.supervise("events of offices", self._read, every=RETRY_DELAY)
        self._rooms.start()

    async def close(self) -> None:
        """To be called after all local members have left; waits until other nodes can see that."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT):
                for office_id in self._rooms.offices():
                    await self._records.wait_until_published(office_id)
        await self._rooms.close()
        await self._background.close()
        await self._reading.close()

    # -- the interface for `Memberships` --

    async def enter(self, office_id: str) -> None:
        """Join the office's room and load its members. Raises `OfficeUnreachable`."""
        await self._rooms.enter(office_id)

    def enter_soon(self, office_id: str) -> None:
        """For an office with members on another process of this node: whichever process reads the room's
        events must know the office."""
        self._spawn(self._try_enter(office_id))

    async def _try_enter(self, office_id: str) -> None:
        """If the room cannot be joined, the next join of a member tries again."""
        assert self._server is not None, _USE_SERVER
        if self._rooms.by_office(office_id) is None:
            with suppress(OfficeUnreachable):
                await self.enter(office_id)
                await self._server.refresh_members(office_id)

    def office_of(self, room_id: str) -> str | None:
        """The office to which a room belongs; None if no local member has been in it."""
        room = self._rooms.by_room_id(room_id)
        return None if room is None else room.office_id

    def remote_members(self, office_id: str) -> OfficeMembers:
        """The members connected to other nodes; none for an office that is not shared."""
        room = self._rooms.by_office(office_id)
        return NO_MEMBERS if room is None else room.members

    def user_id(self, member: Member) -> str:
        """The user id of a local member; empty if its name cannot be part of one."""
        ghost = self._names.ghost(member_address(member.office_id, member.name, self._names.node_id))
        # Other nodes cannot see a member without a user id.
        return "" if ghost is None or isinstance(ghost, NoGhost) else ghost

    async def wait_until_published(self, office_id: str) -> None:
        """Wait until other nodes can see the local members."""
        if self._rooms.by_office(office_id) is None:
            return
        try:
            async with asyncio.timeout(ROOM_TIMEOUT):
                await self._records.wait_until_published(office_id)
        except TimeoutError:
            self._parts.report(f"The room of the office {office_id} does not show its members yet.", None)

    # -- requests to members of other nodes --

    async def call(self, request: RelayRequest, on_answer: AnswerCallback) -> StopWaiting:
        room = self._room_of(request.target)
        target = room.members.by_user.get(request.target.sid)
        sender = self.user_id(request.caller)
        assert target is not None, "it is a member of another node"
        return await self._transport.call(room.room_id, sender, target, request, on_answer)

    async def cancel(self, request: RelayRequest) -> None:
        room = self._room_of(request.target)
        self._spawn(self._transport.cancel(room.room_id, self.user_id(request.caller), request))

    async def send_update(self, member: Member, notice: str) -> None:
        room = self._rooms.by_office(member.office_id)
        sender = self.user_id(member)
        if room is not None and sender and room.members.by_user:
            self._spawn(self._transport.send_update(room.room_id, sender, notice))

    # -- events of rooms --

    def _concerns(self, event: RoomEvent) -> bool:
        if self._rooms.by_room_id(event.room_id) is None:
            return False
        if event.type in TYPES or event.type == MESSAGE:
            return not self._names.is_ours(event.sender)
        return event.type in MEMBERSHIP_STATE

    async def _read(self) -> None:
        """Read the stream while this process holds the reader's lease."""
        try:
            async with self._parts.backend.subscription(NAME, from_now=True, wanted=self._concerns) as reading:
                while True:
                    entries = await reading.next(BATCH_SIZE)
                    await self._handle(entries)
                    async with self._parts.database.autocommit() as connection:
                        await reading.advance(connection, entries[-1].position)
        except (ReaderReplaced, ConnectionLost):
            pass  # the next reader continues at the stored position

    async def _handle(self, entries: Sequence[StreamedEvent]) -> None:
        changed: dict[str, Room] = {}
        for entry in entries:
            event = entry.event
            room = self._rooms.by_room_id(event.room_id)
            if room is None or entry.kind == "invite":
                continue
            if event.type in MEMBERSHIP_STATE:
                changed[room.office_id] = room
                continue
            if room.office_id in changed:
                await self._refresh_all_processes(changed.pop(room.office_id))
            if entry.kind == "timeline":
                await self._handle_event(room, event)
        for room in changed.values():
            await self._refresh_all_processes(room)

    async def _refresh_all_processes(self, room: Room) -> None:
        await self._rooms.refresh(room)
        self._forward_room(room.room_id)

    async def refresh_room(self, room_id: str) -> None:
        """The process that reads the stream has seen a change of membership in the room."""
        room = self._rooms.by_room_id(room_id)
        if room is not None:
            await self._rooms.refresh(room)

    async def handle_forwarded(self, event: RoomEvent) -> None:
        """Handle an event of another node's member that the process which reads the stream has forwarded."""
        room = self._rooms.by_room_id(event.room_id)
        if room is None or event.sender not in room.members.by_user:
            return
        assert self._server is not None, _USE_SERVER
        match read(event.type, event.content):
            case Response() as response if self._names.is_ours(response.to):
                await self._transport.handle_response(event.sender, response)
            case Update(notice):
                await self._server.handle_remote_update(event.sender, notice)

    async def _handle_event(self, room: Room, event: RoomEvent) -> None:
        if event.sender not in room.members.by_user or self._handled.get(event.event_id):
            return
        self._handled[event.event_id] = True
        if event.type == MESSAGE:
            call = event.content.get(CALL)
            req_id = call.get("req_id") if isinstance(call, Mapping) else None
            if isinstance(req_id, str) and self._background.running < MAX_TASKS:
                self._spawn(self._match_message(event.sender, req_id, event.event_id))
            return
        assert self._server is not None, _USE_SERVER
        match read(event.type, event.content):
            case Request() as request if self._names.is_ours(request.to):
                self._spawn(self._answer(room, event, request))
            case Response() as response if self._names.is_ours(response.to):
                if self._transport.is_pending(response):
                    self._spawn(self._transport.handle_response(event.sender, response))
                else:
                    self._forward_event(event)
            case Cancel(id_, _) if id_ in self._answering:
                user, req_id = self._answering[id_]
                if user == event.sender:
                    await self._server.cancel_remote_request(user, req_id)
            case Update(notice):
                await self._server.handle_remote_update(event.sender, notice)
                self._forward_event(event)

    async def _answer(self, room: Room, event: RoomEvent, request: Request) -> None:
        """Requests of members of other nodes pass the same checks as those of local members."""
        assert self._server is not None, _USE_SERVER
        requester = room.members.by_user.get(event.sender)
        if requester is None or request.id in self._answering:
            return
        if sum(user == event.sender for user, _ in self._answering.values()) >= MAX_REMOTE_REQUESTS:
            answer = flat_error(TOO_MANY, f"More than {MAX_REMOTE_REQUESTS} requests are unanswered")
        else:
            self._answering[request.id] = event.sender, ""
            try:
                answer = await self._answer_of(request, event.sender)
            finally:
                del self._answering[request.id]
        await self._transport.answer(room.room_id, request, event.event_id, requester, answer)

    async def _answer_of(self, request: Request, user: str) -> Ack:
        assert self._server is not None, _USE_SERVER
        try:
            payload = await self._transport.open(request.body, request.id, user)
        except ValueError as wrong:
            self._parts.report(f"The request of {user} cannot be read.", wrong)
            return flat_error(BAD_REQUEST, "The request could not be read")
        req_id = payload.get("req_id") if isinstance(payload, dict) else None
        self._answering[request.id] = user, req_id if isinstance(req_id, str) else ""
        return await self._server.handle_remote_request(request.event, user, payload)

    async def _match_message(self, user: str, req_id: str, event_id: str) -> None:
        """Record which message shows a call that is running on this node: approval questions are sent to its
        thread, and a reaction to it cancels the call. The message may arrive before the call has been
        recorded."""
        assert self._server is not None, _USE_SERVER
        async with asyncio.timeout(MATCH_TIMEOUT):
            # There is no event for a recorded call, so this polls.
            while (call_id := self._server.call_id_of(user, req_id)) is None:  # noqa: ASYNC110
                await asyncio.sleep(MATCH_POLL_INTERVAL)
        async with self._parts.database.transaction() as connection:
            await office_records.set_call_event(connection, call_id, event_id)

    # -- internals --

    def _room_of(self, member: Member) -> Room:
        room = self._rooms.by_office(member.office_id)
        assert room is not None, "a local member is in the office"
        return room

    def _spawn(self, work: Any) -> None:
        async def run() -> None:
            try:
                with suppress(TimeoutError):
                    await work
            except Exception as error:
                self._parts.report("An operation between nodes in a shared office failed.", error)

        self._background.spawn("operation between nodes", run())
