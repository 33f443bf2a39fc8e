"""The rooms of offices that several nodes share, as far as members of this node are in them: comes into them,
and follows who of other nodes is there.
"""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, Protocol

from bridge.connectors.offices.office_name import OfficeName, office_name
from bridge.connectors.offices.office_room import MEMBER, OFFICE, SEAT, own_office
from bridge.connectors.offices.service.memberships import Unreachable
from bridge.connectors.offices.service.recording import RoomParts
from bridge.connectors.offices.service.turns import Turns
from bridge.connectors.offices.shared_room import (
    NOBODY,
    SharedRoom,
    may_take_part,
    read_allowed,
    shared_room,
)
from federation.errors import MatrixError, PeerError

PATIENCE: Final = 30.0
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


class Local(Protocol):
    """Those who are connected here."""

    async def follow(self, office_id: str) -> None: ...

    def is_used(self, office_id: str) -> bool:
        """Whether any of this node is in it, by whatever process."""
        ...


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
        self._local: Local | None = None
        self._by_office: dict[str, Room] = {}
        self._by_room: dict[str, Room] = {}
        self._entering = Turns()
        self._looking: asyncio.Task[None] | None = None

    def use(self, local: Local) -> None:
        """Once, before `start`."""
        self._local = local

    def start(self) -> None:
        self._looking = asyncio.create_task(self._look_for_ever())

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking

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
        async with self._entering.of(office_id):
            known = self._by_office.get(office_id)
            if known is not None:
                known.wanted_at = monotonic()
                return
            try:
                async with asyncio.timeout(PATIENCE):
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
