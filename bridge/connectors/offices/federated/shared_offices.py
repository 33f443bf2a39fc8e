"""Offices that several nodes share: what members of other nodes ask there, and what they are asked.

Everything is in the room: who is there, who sits, what is asked and what is answered. So what reaches one
node reaches all, and after a node was cut off all of them see the same.

The rooms of offices that several nodes share, as far as members of this node are in them: comes into them,
and follows who of other nodes is there.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from cachetools import LRUCache

from bridge.connectors.offices.federated.messages import TYPES, Cancel, Request, Response, Update, read
from bridge.connectors.offices.federated.sealing import Sealing
from bridge.connectors.offices.federated.shared_room import (
    NOBODY,
    SharedRoom,
    may_take_part,
    read_allowed,
    shared_room,
)
from bridge.connectors.offices.federated.transport import Carrying
from bridge.connectors.offices.protocol.errors import BAD_REQUEST, TOO_MANY, Flat, flat
from bridge.connectors.offices.protocol.office import Member, OfficeName, office_name
from bridge.connectors.offices.protocol.relay import Relay
from bridge.connectors.offices.rooms.call_events import CALL
from bridge.connectors.offices.rooms.office_room import MEMBER, OFFICE, SEAT, member_address, own_office
from bridge.connectors.offices.rooms.rooms import RoomParts
from bridge.connectors.offices.server.calls import Answered, Forget
from bridge.connectors.offices.server.memberships import Unreachable
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


TIMEOUT: Final = 30.0
"""Seconds for coming into the room of another node."""
LOOKED_AT_EVERY: Final = 20.0
"""Seconds. What the stream did not say of a room is noticed then."""
KEPT_FOR: Final = 60.0
"""Seconds after which an office is forgotten in which nobody of this node is: whoever joins is there by
then."""
MOST_SAID: Final = 1_000
"""Users who say that they are members of one office: of more nobody wants to know."""
STATE: Final = frozenset({MEMBER, SEAT, OFFICE, "m.room.member"})
"""What says who is there."""


@dataclass(eq=False, slots=True)
class Room:
    office_id: str
    room_id: str
    allowed: tuple[str, ...] = ()
    now: SharedRoom = NOBODY
    wanted_at: float = 0.0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class SharedRooms:
    """They are looked at between `start` and `close`."""

    def __init__(self, parts: RoomParts) -> None:
        self._parts = parts
        self._names = parts.settings.names
        self._local: SmcpServer | None = None
        self._by_office: dict[str, Room] = {}
        self._by_room: dict[str, Room] = {}
        self._entering: KeyedLock[str] = KeyedLock()
        self._background = BackgroundTasks()

    def use(self, local: "SmcpServer") -> None:
        """Once, before `start`."""
        self._local = local

    def start(self) -> None:
        self._background.supervise("shared offices", self._look_for_ever)

    async def close(self) -> None:
        await self._background.close()

    def offices(self) -> Collection[str]:
        return tuple(self._by_office)

    def of(self, office_id: str) -> Room | None:
        return self._by_office.get(office_id)

    def called(self, room_id: str) -> Room | None:
        return self._by_room.get(room_id)

    async def enter(self, office_id: str) -> None:
        """When it returns, it is known who is there. Raises `Unreachable`."""
        name = office_name(office_id, ())
        assert isinstance(name, OfficeName), "it is the id of one"
        if name.server is None and not self._parts.nodes:
            return
        async with self._entering.hold(office_id):
            known = self._by_office.get(office_id)
            if known is not None:
                known.wanted_at = monotonic()
                return
            try:
                async with asyncio.timeout(TIMEOUT):
                    room = Room(office_id, await self._parts.room_of(office_id))
                    if name.server is None:
                        await self._let_in_others(room)
                    # From now on everything that happens there is heard, and is looked at again.
                    self._by_room[room.room_id] = room
                    try:
                        await self._look(room)
                    except BaseException:
                        del self._by_room[room.room_id]
                        raise
                    if not may_take_part(self._names.node_user, room.allowed):
                        del self._by_room[room.room_id]
                        await self._parts.side.leave(room.room_id, self._names.node_user)
                        raise Unreachable(f"{name.server} does not let members of this node in")
            except TimeoutError:
                raise Unreachable(f"The office of {name.server or 'this node'} does not answer") from None
            except MatrixError as refused:
                raise Unreachable(f"The office cannot be come into: {refused.text}") from None
            except PeerError as problem:
                raise Unreachable(f"The office cannot be come into: {problem}") from None
            room.wanted_at = monotonic()
            self._by_office[office_id] = room

    async def follow(self, room: Room) -> None:
        """Its state has changed."""
        assert self._local is not None, "it is given before the start"
        before = room.now
        try:
            await self._look(room)
        except MatrixError as refused:
            self._parts.report(f"Who is in the office {room.office_id} could not be looked up.", refused)
            return
        if self._by_office.get(room.office_id) is room and room.now != before:
            await self._local.follow(room.office_id)

    # -- inside --

    async def _let_in_others(self, room: Room) -> None:
        """Who may is said in the room, for every node to read."""
        settings = self._parts.settings
        content = own_office(room.office_id, settings, self._parts.nodes)
        await self._parts.side.set_state(room.room_id, settings.node_user, OFFICE, content)

    async def _look(self, room: Room) -> None:
        side, room_id = self._parts.side, room.room_id
        async with room.turn:
            office = await side.state_event(room_id, OFFICE)
            room.allowed = () if office is None else read_allowed(office.content)
            said = [
                one
                for one in await side.state(room_id, MEMBER)
                if one.content and may_take_part(one.sender, room.allowed)
            ][:MOST_SAID]
            joined = {one.sender for one in said if await side.membership(room_id, one.sender) == "join"}
            everybody = shared_room(said, await side.state_event(room_id, SEAT), joined, room.allowed)
            # Who of ours is there we know better: the room is told a moment later.
            others = {user: one for user, one in everybody.members.items() if not self._names.is_ours(user)}
            room.now = SharedRoom(others)

    async def _look_for_ever(self) -> None:
        while True:
            await asyncio.sleep(LOOKED_AT_EVERY)
            for room in tuple(self._by_office.values()):
                try:
                    if self._is_wanted(room):
                        await self.follow(room)
                    else:
                        await self._forget(room)
                except Exception as error:
                    self._parts.report(f"Who is in the office {room.office_id} is looked up later.", error)

    def _is_wanted(self, room: Room) -> bool:
        assert self._local is not None, "it is given before the start"
        if self._local.is_used(room.office_id):
            room.wanted_at = monotonic()
        return monotonic() < room.wanted_at + KEPT_FOR

    async def _forget(self, room: Room) -> None:
        """Nobody here wants to know any more who of other nodes is there."""
        assert self._local is not None, "it is given before the start"
        del self._by_office[room.office_id], self._by_room[room.room_id]
        await self._local.follow(room.office_id)


NAME: Final = "offices-shared"
AT_ONCE: Final = 50
AGAIN: Final = 0.5
"""Seconds until it reads again after the database was away."""
"""Seconds for telling the room of another node who has come here."""
FAREWELL: Final = 5.0
MOST_TASKS: Final = 1_000
"""What is under way at the same time. Beyond that messages of calls are not looked for."""
NOTED_EVERY: Final = 0.05
NOTED_FOR: Final = 5.0
MOST_HEARD: Final = 10_000
MOST_ASKED: Final = 200
"""Requests of one member of another node that are on their way, those among them that are still being
read."""


class SharedOffices:
    """Offices of other nodes, and those of this one into which others may come. It runs between `start` and
    `close`."""

    def __init__(self, parts: RoomParts, sealing: Sealing, records: "OfficeRecords") -> None:
        self._parts = parts
        self._names = parts.settings.names
        self._records = records
        self._carrying = Carrying(parts, sealing)
        self._local: SmcpServer | None = None
        self._rooms = SharedRooms(parts)
        self._heard: LRUCache[str, bool] = LRUCache(MOST_HEARD)
        self._answering: dict[str, tuple[str, str]] = {}
        self._background = BackgroundTasks()
        self._reading = BackgroundTasks()
        # Where several processes of the node serve the same offices: how others are told what is for them.
        self._say_room: Callable[[str], None] = lambda room_id: None
        self._say_event: Callable[[RoomEvent], None] = lambda event: None

    def pass_on(self, say_room: Callable[[str], None], say_event: Callable[[RoomEvent], None]) -> None:
        """Before `start`."""
        self._say_room, self._say_event = say_room, say_event

    def use(self, local: "SmcpServer") -> None:
        """Once, before `start`."""
        self._local = local
        self._rooms.use(local)

    def start(self) -> None:
        self._reading.supervise("events of offices", self._read, every=AGAIN)
        self._rooms.start()

    async def close(self) -> None:
        """Once everybody here has left, of which other nodes are told."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL):
                for office_id in self._rooms.offices():
                    await self._records.until_told(office_id)
        await self._rooms.close()
        await self._background.close()
        await self._reading.close()

    # -- what memberships ask --

    async def enter(self, office_id: str) -> None:
        """When it returns, it is known who is there. Raises `Unreachable`."""
        await self._rooms.enter(office_id)

    def enter_soon(self, office_id: str) -> None:
        """Members of another process of this node are there: whichever of them hears what is said in its room
        has to know it."""
        self._spawn(self._enter_quietly(office_id))

    async def _enter_quietly(self, office_id: str) -> None:
        """Where it cannot be come into now, it is tried again by the next who joins."""
        assert self._local is not None, "it is given before the start"
        if self._rooms.of(office_id) is None:
            with suppress(Unreachable):
                await self.enter(office_id)
                await self._local.follow(office_id)

    def office_of(self, room_id: str) -> str | None:
        """Whose room that is, as far as members of this node have been in it."""
        room = self._rooms.called(room_id)
        return None if room is None else room.office_id

    def room(self, office_id: str) -> SharedRoom:
        """Members of other nodes, as its room has them; none for an office that is not shared."""
        room = self._rooms.of(office_id)
        return NOBODY if room is None else room.now

    def user(self, member: Member) -> str:
        """As whom a member of ours is in the room."""
        ghost = self._names.ghost(member_address(member.office_id, member.name, self._names.node_id))
        # One that no user can be called after is known to nobody else.
        return "" if ghost is None or isinstance(ghost, NoGhost) else ghost

    async def settled(self, office_id: str) -> None:
        """When it returns, other nodes can know who has come here and who has gone."""
        if self._rooms.of(office_id) is None:
            return
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._records.until_told(office_id)
        except TimeoutError:
            self._parts.report(f"The room of the office {office_id} is told late who is there.", None)

    # -- what is asked of members of other nodes --

    async def ask(self, relay: Relay, answered: Answered) -> Forget:
        room, user = self._room_of(relay.target), relay.target.sid
        there = room.now.members.get(user)
        speaker = self.user(relay.caller)
        assert there is not None, "it is a member of another node"
        return await self._carrying.ask(room.room_id, speaker, there, relay, answered)

    async def stop(self, relay: Relay) -> None:
        room = self._room_of(relay.target)
        self._spawn(self._carrying.stop(room.room_id, self.user(relay.caller), relay))

    async def tell(self, member: Member, notice: str) -> None:
        room = self._rooms.of(member.office_id)
        own = self.user(member)
        if room is not None and own and room.now.members:
            self._spawn(self._carrying.tell(room.room_id, own, notice))

    # -- what happens in rooms --

    def _concerns(self, event: RoomEvent) -> bool:
        if self._rooms.called(event.room_id) is None:
            return False
        if event.type in TYPES or event.type == MESSAGE:
            return not self._names.is_ours(event.sender)
        return event.type in STATE

    async def _read(self) -> None:
        """As long as this process is the reader."""
        try:
            async with self._parts.side.subscription(NAME, from_now=True, wanted=self._concerns) as reading:
                while True:
                    entries = await reading.next(AT_ONCE)
                    await self._hear(entries)
                    async with self._parts.database.autocommit() as connection:
                        await reading.advance(connection, entries[-1].position)
        except (ReaderReplaced, ConnectionLost):
            pass  # whoever reads next goes on

    async def _hear(self, entries: Sequence[StreamedEvent]) -> None:
        changed: dict[str, Room] = {}
        for entry in entries:
            event = entry.event
            room = self._rooms.called(event.room_id)
            if room is None or entry.kind == "invite":
                continue
            if event.type in STATE:
                changed[room.office_id] = room
                continue
            if room.office_id in changed:
                await self._follow_for_all(changed.pop(room.office_id))
            if entry.kind == "timeline":
                await self._said(room, event)
        for room in changed.values():
            await self._follow_for_all(room)

    async def _follow_for_all(self, room: Room) -> None:
        await self._rooms.follow(room)
        self._say_room(room.room_id)

    async def follow_room(self, room_id: str) -> None:
        """The process has heard something there that reads for all."""
        room = self._rooms.called(room_id)
        if room is not None:
            await self._rooms.follow(room)

    async def hear_passed(self, event: RoomEvent) -> None:
        """What that one has heard of a member of another node."""
        room = self._rooms.called(event.room_id)
        if room is None or event.sender not in room.now.members:
            return
        assert self._local is not None, "it is given before the start"
        match read(event.type, event.content):
            case Response() as response if self._names.is_ours(response.to):
                await self._carrying.hear(event.sender, response)
            case Update(notice):
                await self._local.told(event.sender, notice)

    async def _said(self, room: Room, event: RoomEvent) -> None:
        if event.sender not in room.now.members or self._heard.get(event.event_id):
            return
        self._heard[event.event_id] = True
        if event.type == MESSAGE:
            call = event.content.get(CALL)
            req_id = call.get("req_id") if isinstance(call, Mapping) else None
            if isinstance(req_id, str) and self._background.running < MOST_TASKS:
                self._spawn(self._note(event.sender, req_id, event.event_id))
            return
        assert self._local is not None, "it is given before the start"
        match read(event.type, event.content):
            case Request() as request if self._names.is_ours(request.to):
                self._spawn(self._answer(room, event, request))
            case Response() as response if self._names.is_ours(response.to):
                if self._carrying.has_asked(response):
                    self._spawn(self._carrying.hear(event.sender, response))
                else:
                    self._say_event(event)
            case Cancel(id_, _) if id_ in self._answering:
                user, req_id = self._answering[id_]
                if user == event.sender:
                    await self._local.taken_back(user, req_id)
            case Update(notice):
                await self._local.told(event.sender, notice)
                self._say_event(event)

    async def _answer(self, room: Room, event: RoomEvent, request: Request) -> None:
        """What a member of another node asks one of ours is looked at like what one of ours asks."""
        assert self._local is not None, "it is given before the start"
        asker = room.now.members.get(event.sender)
        if asker is None or request.id in self._answering:
            return
        if sum(user == event.sender for user, _ in self._answering.values()) >= MOST_ASKED:
            answer = flat(TOO_MANY, f"More than {MOST_ASKED} requests are on their way")
        else:
            self._answering[request.id] = event.sender, ""
            try:
                answer = await self._answer_of(request, event.sender)
            finally:
                del self._answering[request.id]
        await self._carrying.answer(room.room_id, request, event.event_id, asker, answer)

    async def _answer_of(self, request: Request, user: str) -> Flat:
        assert self._local is not None, "it is given before the start"
        try:
            said = await self._carrying.open(request.body, request.id, user)
        except ValueError as wrong:
            self._parts.report(f"What {user} asks cannot be read.", wrong)
            return flat(BAD_REQUEST, "What was asked cannot be read")
        req_id = said.get("req_id") if isinstance(said, dict) else None
        self._answering[request.id] = user, req_id if isinstance(req_id, str) else ""
        return await self._local.asked(request.event, user, said)

    async def _note(self, user: str, req_id: str, event_id: str) -> None:
        """The message that shows people a call which is under way here: questions belong to it, and a
        reaction to it stops the call. It may come before the call has been written down."""
        assert self._local is not None, "it is given before the start"
        async with asyncio.timeout(NOTED_FOR):
            # Nobody says when a call has been written down: there is nothing to wait for.
            while (call_id := self._local.call_under_way(user, req_id)) is None:  # noqa: ASYNC110
                await asyncio.sleep(NOTED_EVERY)
        async with self._parts.database.transaction() as connection:
            await office_records.set_call_event(connection, call_id, event_id)

    # -- inside --

    def _room_of(self, member: Member) -> Room:
        room = self._rooms.of(member.office_id)
        assert room is not None, "somebody of ours is there who has asked"
        return room

    def _spawn(self, doing: Any) -> None:
        async def run() -> None:
            try:
                with suppress(TimeoutError):
                    await doing
            except Exception as error:
                self._parts.report("Something between offices of several nodes has failed.", error)

        self._background.spawn("something between nodes", run())
