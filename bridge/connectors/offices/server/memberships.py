"""Who is in which office: members that are connected to this process, companions that are to another one of
the node, and members of other nodes in offices that are shared. What moves somebody goes one after the other,
is written down before it holds, and is told to those who are there.

A connection to this node's offices, from its CONNECT to its end.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bridge.connectors.offices.federated.shared_room import (
    NOBODY,
    Come,
    Evicted,
    Gone,
    Present,
    SharedRoom,
    changes,
)
from bridge.connectors.offices.protocol.events import ENTERED, LEFT
from bridge.connectors.offices.protocol.office import (
    Disconnect,
    Effects,
    Join,
    Leave,
    Left,
    Member,
    Offices,
    Refused,
    is_elsewhere,
)
from bridge.connectors.offices.protocol.versions import ProtocolVersion
from bridge.connectors.offices.tokens import Grant
from bridge.observability.report import Report
from storage.concurrency import KeyedLock

if TYPE_CHECKING:
    from bridge.connectors.offices.cluster.members import Companions
    from bridge.connectors.offices.federated.shared_offices import SharedOffices
    from bridge.connectors.offices.rooms.call_log import OfficeRecords


@dataclass(eq=False, slots=True)
class Connection:
    """`turn`: what moves it goes one after the other, and what it asks waits for that: whoever joins asks
    right after it, without waiting for the answer. `reads_tasks`: it has said so. `office_said` is what it
    calls its office, and `had_to_leave` why it was taken out of one."""

    sid: str
    grant: Grant
    version: ProtocolVersion | None
    reads_tasks: bool = False
    office_said: str = ""
    had_to_leave: str = ""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def came_in(self, office_said: str) -> None:
        self.office_said, self.had_to_leave = office_said, ""

    async def settled(self) -> None:
        if self.turn.locked():
            async with self.turn:
                pass


PLACE_TAKEN: Final = "its process was not to be reached, and somebody else has taken its place"
Tell = Callable[[str, Any, str], Awaitable[None]]
"""An event, what it says, and the connection that it is for."""


class Unreachable(Exception):
    """The office cannot be come into. The sentence is for the client."""


class NotShared:
    """Offices of one node."""

    async def enter(self, office_id: str) -> None:
        pass

    def room(self, office_id: str) -> SharedRoom:
        return NOBODY

    def user(self, member: Member) -> str:
        return ""

    async def settled(self, office_id: str) -> None:
        pass


class Alone:
    """One process."""

    def turn(self, office_ids: Collection[str]) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def wrote(self, office_id: str) -> None:
        pass

    async def look(self, office_id: str) -> None:
        pass

    def room(self, office_id: str) -> SharedRoom:
        return NOBODY

    def has(self, member: Member) -> bool:
        return True

    def unseated(self, office_id: str, members: Iterable[Member]) -> list[Member]:
        return []

    def is_free(self, member: Member) -> bool:
        return True

    def owe(self, member: Member) -> None:
        """The next start of the node writes it down."""


class Memberships:
    """`tell` is how a connection is told something. `gone` is told of each who is in its office no more, and
    `moved` whenever somebody has come or gone."""

    def __init__(
        self,
        most_members: int,
        records: "OfficeRecords",
        tell: Tell,
        *,
        gone: Callable[[str], Awaitable[None]],
        report: Report,
        shared: "SharedOffices | None" = None,
        beside: "Companions | None" = None,
    ) -> None:
        self.offices = Offices(most_members)
        self.connections: dict[str, Connection] = {}
        self.moved: Callable[[], None] = lambda: None
        self._records = records
        self._tell = tell
        self._gone = gone
        self._report = report
        self._shared: SharedOffices | NotShared = shared or NotShared()
        self._beside: Companions | Alone = beside or Alone()
        # Members of other nodes, by their users: those are their connections; and companions by theirs.
        self._others: dict[str, Present] = {}
        self._turns: KeyedLock[str] = KeyedLock()

    def version_of(self, sid: str) -> ProtocolVersion | None:
        connection = self.connections.get(sid)
        if connection is not None:
            return connection.version
        other = self._others.get(sid)
        return None if other is None else other.version

    def is_elsewhere(self, sid: str) -> bool:
        """Whether it is a member of another node."""
        member = self.offices.member(sid)
        return sid in self._others and (member is None or is_elsewhere(member))

    async def tell_office(self, event: str, said: dict[str, Any], by: Member) -> None:
        """All others who are connected here, each of its office as it calls it."""
        for member in self.offices.members(by.office_id):
            connection = self.connections.get(member.sid)
            if connection is not None and member.sid != by.sid:
                own = {**said, "office_id": connection.office_said} if "office_id" in said else said
                await self._tell(event, own, member.sid)

    # -- who is connected here --

    async def move(
        self, connection: Connection, happened: Join | Leave, said: str
    ) -> tuple[bool, str | None]:
        """`said` is what the client calls the office."""
        sid = connection.sid
        async with connection.turn:
            if sid not in self.connections:
                return False, "The connection has ended"
            before = self.offices.member(sid)
            if isinstance(happened, Join):
                try:
                    await self._shared.enter(happened.office_id)
                except Unreachable as problem:
                    return False, str(problem)
            offices = {happened.office_id, *([] if before is None else [before.office_id])}
            async with AsyncExitStack() as stack:
                for office_id in sorted(offices):
                    await stack.enter_async_context(self._turns.hold(office_id))
                await stack.enter_async_context(self._beside.turn(offices))
                for office_id in sorted(offices):
                    await self._follow(office_id)
                effects = self.offices.decide(sid, happened)
                if isinstance(effects, Refused):
                    return False, effects.reason
                await self._write_down(sid, effects)
                if isinstance(happened, Join):
                    connection.came_in(said)
                await self._carry_out(sid, effects)
            if isinstance(happened, Join):
                await self._shared.settled(happened.office_id)
        return True, None

    async def end(self, sid: str) -> None:
        """The connection is gone."""
        connection = self.connections.get(sid)
        if connection is None:
            return
        async with connection.turn:
            if self.connections.pop(sid, None) is None:
                return
            effects = self.offices.decide(sid, Disconnect())
            assert not isinstance(effects, Refused), "nobody is kept"
            try:
                async with self._beside.turn({effect.member.office_id for effect in effects}):
                    await self._write_down(sid, effects)
            except Exception as error:
                # Nobody can be kept who is gone. It is written down later.
                self._report(f"That {connection.grant.owner} has left could not be written down.", error)
                for effect in effects:
                    self._beside.owe(effect.member)
            await self._carry_out(sid, effects)
            self.offices.forget(sid)
        await self._gone(sid)

    # -- who is connected to other nodes, and to other processes --

    async def follow(self, office_id: str) -> None:
        """What its room says of who is there has changed, or what another process has written down."""
        async with self._turns.hold(office_id):
            await self._beside.look(office_id)
            here = [one for one in self.offices.members(office_id) if one.sid in self.connections]
            unseated = self._beside.unseated(office_id, here)
        for member in unseated:
            await self._seat_again(member)
        for change in self._changes(office_id):
            if isinstance(change, Evicted):
                await self._evict(change.member)
        async with self._turns.hold(office_id):
            await self._follow(office_id)

    def companions(self, office_id: str) -> frozenset[str]:
        """The connections of those in it that are connected to other processes."""
        here = self.offices.members(office_id)
        return frozenset(one.sid for one in here if one.sid in self._others and not is_elsewhere(one))

    def is_used(self, office_id: str) -> bool:
        """Whether any of this node is in it, by whatever process."""
        return any(not is_elsewhere(one) for one in self.offices.members(office_id))

    # -- inside --

    def _changes(self, office_id: str) -> list[Gone | Evicted | Come]:
        here = self.offices.members(office_id)
        ours = {one.sid: self._shared.user(one) for one in here if one.sid not in self._others}
        room, beside = self._shared.room(office_id), self._beside.room(office_id)
        if beside.members:
            room = SharedRoom({**beside.members, **room.members})
        return changes(room, here, ours, self._others)

    async def _follow(self, office_id: str) -> None:
        """In the office's turn. Who has to leave here does so in its own."""
        for change in self._changes(office_id):
            if isinstance(change, Gone):
                if self._is_in(change.user, office_id):
                    await self._take_out(change.user)
            elif isinstance(change, Come):
                one = change.member
                if self.offices.member(one.user) is not None:
                    # A connection is in one office, and has left the other one. Which of them is known by an
                    # older look: each is looked at in its own turn, and this one is again.
                    if one.since < self._others[one.user].since:
                        continue
                    await self._take_out(one.user)
                join = Join(one.role, one.name, office_id)
                effects = self.offices.decide(one.user, join)
                # Whoever is in the way is on its way out, and then it is looked at again.
                if not isinstance(effects, Refused):
                    self._others[one.user] = one
                    await self._carry_out(one.user, effects)

    async def _take_out(self, sid: str) -> None:
        """One that is not connected here. It may be by another office's turn: nothing is waited for before it
        holds."""
        effects = self.offices.decide(sid, Disconnect())
        assert not isinstance(effects, Refused), "nobody is kept"
        self.offices.apply(sid, effects)
        self.offices.forget(sid)
        self._others.pop(sid, None)
        for effect in effects:
            await self._tell_left(effect.member)

    def _is_in(self, sid: str, office_id: str) -> bool:
        member = self.offices.member(sid)
        return member is not None and member.office_id == office_id

    async def _evict(self, member: Member) -> None:
        """It is told why when it asks for something next; published clients hear no reason in a notice."""
        connection = self.connections.get(member.sid)
        if connection is None:
            return
        async with connection.turn, self._turns.hold(member.office_id):
            reasons = [
                change.reason
                for change in self._changes(member.office_id)
                if isinstance(change, Evicted) and change.member == member
            ]
            if not reasons:
                return
            try:
                async with self._beside.turn({member.office_id}):
                    await self._write_down_left(member, reasons[0])
            except Exception as error:
                self._report(f"That {member.name} had to leave could not be written down.", error)
                self._beside.owe(member)
            await self._put_out(connection, member, reasons[0])

    async def _seat_again(self, member: Member) -> None:
        """One that has lost its place, because this process was thought to have ended, has it again; or
        leaves, if somebody else has it by now."""
        connection = self.connections.get(member.sid)
        if connection is None:
            return
        office_id = member.office_id
        async with connection.turn, self._turns.hold(office_id), self._beside.turn({office_id}):
            is_here = self.offices.member(member.sid) == member
            if not is_here or not self._beside.unseated(office_id, [member]):
                return
            if self._beside.is_free(member):
                await self._records.joined(member, connection.version)
                self._beside.wrote(office_id)
            else:
                await self._write_down_left(member, PLACE_TAKEN)
                await self._put_out(connection, member, PLACE_TAKEN)

    async def _put_out(self, connection: Connection, member: Member, reason: str) -> None:
        """In the turns of both."""
        await self._carry_out(member.sid, (Left(member),))
        connection.had_to_leave = reason
        notice = {"office_id": connection.office_said, member.role: member.name}
        await self._tell(LEFT, notice, member.sid)

    async def _write_down(self, sid: str, effects: Effects) -> None:
        """All of it, before any of it holds."""
        for effect in effects:
            if isinstance(effect, Left):
                await self._write_down_left(effect.member)
            else:
                await self._records.joined(effect.member, self.version_of(sid))
                self._beside.wrote(effect.member.office_id)

    async def _write_down_left(self, member: Member, reason: str = "") -> None:
        """Unless its place has been given to somebody else."""
        if self._beside.has(member):
            await self._records.left(member, reason)
            self._beside.wrote(member.office_id)

    async def _carry_out(self, sid: str, effects: Effects) -> None:
        """It holds before the others are told."""
        for effect in effects:
            self.offices.apply(sid, (effect,))
            if isinstance(effect, Left):
                await self._tell_left(effect.member)
            else:
                await self.tell_office(ENTERED, _notice(effect.member), effect.member)
                self.moved()

    async def _tell_left(self, member: Member) -> None:
        await self.tell_office(LEFT, _notice(member), member)
        await self._gone(member.sid)
        self.moved()


def _notice(member: Member) -> dict[str, Any]:
    return {"office_id": member.office_id, member.role: member.name}
