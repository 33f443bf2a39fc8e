"""Offices that several nodes share: what members of other nodes ask there, and what they are asked.

Everything is in the room: who is there, who sits, what is asked and what is answered. So what reaches one
node reaches all, and after a node was cut off all of them see the same.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from bridge.connectors.offices.call_events import CALL
from bridge.connectors.offices.flat_error import BAD_REQUEST, TOO_MANY, Flat, flat
from bridge.connectors.offices.office import Member
from bridge.connectors.offices.office_room import member_address
from bridge.connectors.offices.relay import Relay
from bridge.connectors.offices.service.carrying import Carrying
from bridge.connectors.offices.service.memberships import Unreachable
from bridge.connectors.offices.service.recording import RoomParts
from bridge.connectors.offices.service.relaying import Answered, Forget
from bridge.connectors.offices.service.sealing import Sealing
from bridge.connectors.offices.service.shared_rooms import STATE, Room, SharedRooms
from bridge.connectors.offices.service.shared_rooms import Local as RoomsLocal
from bridge.connectors.offices.shared_room import NOBODY, SharedRoom
from bridge.connectors.offices.travelling import TYPES, Cancel, Request, Response, Update, read
from bridge.ghost import NoGhost
from bridge.people.message import MESSAGE
from bridge.people.service.reader import Reader
from federation.bounded_cache import BoundedCache
from federation.room_event import EventHead, RoomEvent, StreamedEvent
from storage import office_records

NAME: Final = "offices-shared"
PATIENCE: Final = 30.0
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


class Local(RoomsLocal, Protocol):
    """Those who are connected here."""

    async def asked(self, event: str, user: str, said: object) -> Flat: ...

    async def taken_back(self, user: str, req_id: str) -> None: ...

    async def told(self, user: str, notice: str) -> None: ...

    def call_under_way(self, user: str, req_id: str) -> str | None: ...


class Tells(Protocol):
    """Whoever tells rooms what has been written down."""

    async def until_told(self, office_id: str) -> None: ...


class SharedOffices:
    """Offices of other nodes, and those of this one into which others may come. It runs between `start` and
    `close`."""

    def __init__(self, parts: RoomParts, sealing: Sealing, tells: Tells) -> None:
        self._parts = parts
        self._names = parts.settings.names
        self._tells = tells
        self._carrying = Carrying(parts, sealing)
        self._local: Local | None = None
        self._rooms = SharedRooms(parts)
        self._heard: BoundedCache[str, bool] = BoundedCache(MOST_HEARD)
        self._answering: dict[str, tuple[str, str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._reader = Reader(
            parts.side, parts.database, NAME, self._hear, parts.report, wanted=self._concerns
        )
        # Where several processes of the node serve the same offices: how others are told what is for them.
        self._say_room: Callable[[str], None] = lambda room_id: None
        self._say_event: Callable[[RoomEvent], None] = lambda event: None

    def pass_on(self, say_room: Callable[[str], None], say_event: Callable[[RoomEvent], None]) -> None:
        """Before `start`."""
        self._say_room, self._say_event = say_room, say_event

    def use(self, local: Local) -> None:
        """Once, before `start`."""
        self._local = local
        self._rooms.use(local)

    def start(self) -> None:
        self._reader.start()
        self._rooms.start()

    async def close(self) -> None:
        """Once everybody here has left, of which other nodes are told."""
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL):
                for office_id in self._rooms.offices():
                    await self._tells.until_told(office_id)
        await self._rooms.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._reader.close()

    # -- what memberships ask --

    async def enter(self, office_id: str) -> None:
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
        room = self._rooms.of(office_id)
        return NOBODY if room is None else room.now

    def user(self, member: Member) -> str:
        ghost = self._names.ghost(member_address(member.office_id, member.name, self._names.node_id))
        # One that no user can be called after is known to nobody else.
        return "" if ghost is None or isinstance(ghost, NoGhost) else ghost

    async def settled(self, office_id: str) -> None:
        if self._rooms.of(office_id) is None:
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await self._tells.until_told(office_id)
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

    def _concerns(self, event: EventHead) -> bool:
        if self._rooms.called(event.room_id) is None:
            return False
        if event.type in TYPES or event.type == MESSAGE:
            return not self._names.is_ours(event.sender)
        return event.type in STATE

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
        self._heard.put(event.event_id, True)
        if event.type == MESSAGE:
            call = event.content.get(CALL)
            req_id = call.get("req_id") if isinstance(call, Mapping) else None
            if isinstance(req_id, str) and len(self._tasks) < MOST_TASKS:
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

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
