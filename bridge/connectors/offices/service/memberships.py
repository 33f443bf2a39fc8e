"""Who is in which office: members that are connected to this node, and members of other nodes in offices that
are shared. What moves somebody goes one after the other, is written down before it holds, and is told to
those who are there.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Protocol

from bridge.connectors.offices.events import ENTERED, LEFT
from bridge.connectors.offices.office import (
    Disconnect,
    Effects,
    Entered,
    Join,
    Leave,
    Left,
    Member,
    Offices,
    Refused,
)
from bridge.connectors.offices.protocol_version import ProtocolVersion
from bridge.connectors.offices.service.connection import Connection
from bridge.connectors.offices.shared_room import NOBODY, Come, Evicted, Gone, Present, SharedRoom, changes
from bridge.service.session import Report

Tell = Callable[[str, Any, str], Awaitable[None]]
"""An event, what it says, and the connection that it is for."""


class Unreachable(Exception):
    """The office cannot be come into. The sentence is for the client."""


class Records(Protocol):
    """Where it is written down who comes and goes: what returns has been committed."""

    async def joined(self, member: Member, version: ProtocolVersion | None) -> None: ...

    async def left(self, member: Member, reason: str = "") -> None: ...


class Shared(Protocol):
    """Offices in which members of other nodes may be."""

    async def enter(self, office_id: str) -> None:
        """When it returns, it is known who is there. Raises `Unreachable`."""
        ...

    def room(self, office_id: str) -> SharedRoom:
        """Members of other nodes, as its room has them; nobody for an office that is not shared."""
        ...

    def user(self, member: Member) -> str:
        """As whom a member of ours is in the room."""
        ...

    async def settled(self, office_id: str) -> None:
        """When it returns, other nodes can know who has come here and who has gone."""
        ...


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


class Memberships:
    """`tell` is how a connection is told something. `gone` is told of each who is in its office no more, and
    `moved` whenever somebody has come or gone."""

    def __init__(
        self,
        most_members: int,
        records: Records,
        tell: Tell,
        *,
        gone: Callable[[str], Awaitable[None]],
        report: Report,
        shared: Shared | None = None,
    ) -> None:
        self.offices = Offices(most_members)
        self.connections: dict[str, Connection] = {}
        self.moved: Callable[[], None] = lambda: None
        self._records = records
        self._tell = tell
        self._gone = gone
        self._report = report
        self._shared: Shared = shared or NotShared()
        # Members of other nodes, by their users: those are their connections.
        self._others: dict[str, Present] = {}
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}

    def version_of(self, sid: str) -> ProtocolVersion | None:
        connection = self.connections.get(sid)
        if connection is not None:
            return connection.version
        other = self._others.get(sid)
        return None if other is None else other.version

    def is_elsewhere(self, sid: str) -> bool:
        """Whether it is a member of another node."""
        return sid in self._others

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
                    await stack.enter_async_context(_Turn(self._turns, office_id))
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
                await self._write_down(sid, effects)
            except Exception as error:
                # Nobody can be kept who is gone. The next start of the node writes it down.
                self._report(f"That {connection.grant.owner} has left could not be written down.", error)
            await self._carry_out(sid, effects)
            self.offices.forget(sid)
        await self._gone(sid)

    # -- who is connected to other nodes --

    async def follow(self, office_id: str) -> None:
        """What its room says of who is there has changed."""
        for change in self._changes(office_id):
            if isinstance(change, Evicted):
                await self._evict(change.member)
        async with _Turn(self._turns, office_id):
            await self._follow(office_id)

    # -- inside --

    def _changes(self, office_id: str) -> list[Gone | Evicted | Come]:
        here = self.offices.members(office_id)
        ours = {one.sid: self._shared.user(one) for one in here if one.sid not in self._others}
        return changes(self._shared.room(office_id), here, ours, self._others)

    async def _follow(self, office_id: str) -> None:
        """In the office's turn. Who has to leave here does so in its own."""
        for change in self._changes(office_id):
            if isinstance(change, Gone):
                effects = self.offices.decide(change.user, Disconnect())
                assert not isinstance(effects, Refused), "nobody is kept"
                await self._carry_out(change.user, effects)
                self.offices.forget(change.user)
                self._others.pop(change.user, None)
            elif isinstance(change, Come):
                one = change.member
                join = Join(one.role, one.name, office_id)
                effects = self.offices.decide(one.user, join)
                # Whoever is in the way is on its way out, and then it is looked at again.
                if not isinstance(effects, Refused):
                    self._others[one.user] = one
                    await self._carry_out(one.user, effects)

    async def _evict(self, member: Member) -> None:
        """It is told why when it asks for something next; published clients hear no reason in a notice."""
        connection = self.connections.get(member.sid)
        if connection is None:
            return
        async with connection.turn:
            async with _Turn(self._turns, member.office_id):
                reasons = [
                    change.reason
                    for change in self._changes(member.office_id)
                    if isinstance(change, Evicted) and change.member == member
                ]
                if not reasons:
                    return
                try:
                    await self._records.left(member, reasons[0])
                except Exception as error:
                    self._report(f"That {member.name} had to leave could not be written down.", error)
                await self._carry_out(member.sid, (Left(member),))
                connection.had_to_leave = reasons[0]
            notice = {"office_id": connection.office_said, member.role: member.name}
            await self._tell(LEFT, notice, member.sid)

    async def _write_down(self, sid: str, effects: Effects) -> None:
        """All of it, before any of it holds."""
        for effect in effects:
            if isinstance(effect, Left):
                await self._records.left(effect.member)
            else:
                await self._records.joined(effect.member, self.version_of(sid))

    async def _carry_out(self, sid: str, effects: Effects) -> None:
        """The others are told before who leaves is taken out, and after who enters has come in."""
        for effect in effects:
            member = effect.member
            notice = {"office_id": member.office_id, member.role: member.name}
            if isinstance(effect, Left):
                await self.tell_office(LEFT, notice, member)
                self.offices.apply(sid, (effect,))
                await self._gone(sid)
            elif isinstance(effect, Entered):
                self.offices.apply(sid, (effect,))
                await self.tell_office(ENTERED, notice, member)
            self.moved()


class _Turn:
    """Of an office: what moves somebody there goes one after the other."""

    def __init__(self, turns: dict[str, tuple[asyncio.Lock, int]], office_id: str) -> None:
        self._turns = turns
        self._office_id = office_id

    async def __aenter__(self) -> None:
        lock, waiting = self._turns.get(self._office_id, (asyncio.Lock(), 0))
        self._turns[self._office_id] = lock, waiting + 1
        await lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        lock, waiting = self._turns[self._office_id]
        lock.release()
        if waiting == 1:
            del self._turns[self._office_id]
        else:
            self._turns[self._office_id] = lock, waiting - 1
