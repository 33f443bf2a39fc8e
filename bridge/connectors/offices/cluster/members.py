"""Members who are connected to other processes of this node.

Who is there stands in Postgres, and nowhere else. Whoever joins, leaves or has to leave has its office for
itself meanwhile, in whatever process; then the others are told over the broker that something has changed,
and look. What a process that has ended has left behind the others put away.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from bridge.connectors.offices.cluster.broker import Broker
from bridge.connectors.offices.cluster.member_rules import (
    Seated,
    companions,
    is_free,
    processes,
    seated,
    unseated,
)
from bridge.connectors.offices.federated.shared_room import NOBODY, SharedRoom
from bridge.connectors.offices.protocol.events import UPDATES
from bridge.connectors.offices.protocol.office import Member
from bridge.connectors.offices.rooms.call_log import OfficeRecords
from bridge.connectors.offices.rooms.record_rows import read_seated
from bridge.observability.report import Report
from storage.concurrency import BackgroundTasks, KeyedLock
from storage.connect import ConnectionLost
from storage.database import Connection, Database
from storage.offices import records as office_records
from storage.offices.records import PresentMember

if TYPE_CHECKING:
    from bridge.connectors.offices.server.server import SmcpServer


CHANGED: Final = "changed"
"""Who is in an office."""
UPDATED: Final = "updated"
"""Something of a Computer, which its office is told."""
BEGUN: Final = "begun"
"""A process, which may have put away what another one had left behind."""
HERE: Final = "here"
"""Other processes, when one begins."""
MOST_TURNS: Final = 4
"""Moves of one process that are decided at once: as many connections to Postgres."""
TIMEOUT: Final = 10.0
"""Seconds for an office to be free."""
LOOKED_AT_EVERY: Final = 1.0
"""Seconds between two looks whether the other processes are alive. Those are taken to have ended that were
not there twice."""
ALL_LOOKED_AT_EVERY: Final = 10.0
"""Seconds. What the broker did not bring is noticed then."""


FOLLOWED_AGAIN: Final = 1.0
MOST_KNOWN: Final = 1_000


class OfficeBusy(Exception):
    """Another process has it, and does not give it back."""


class Companions:
    """It runs between `start` and `close`. `others` is told of offices in
    which there are companions."""

    def __init__(
        self,
        database: Database,
        records: OfficeRecords,
        broker: Broker,
        *,
        report: Report,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._records = records
        self._process = records.process
        self._broker = broker
        self._report = report
        self._monotonic = monotonic
        self._local: SmcpServer | None = None
        self.others: Callable[[str], None] = lambda office_id: None
        # For the turns alone: whoever has one waits for a connection of the node's pool.
        self._locks: Database | None = None
        self._written: dict[str, tuple[Seated, ...]] = {}
        self._changed: set[str] = set()
        self._owed: list[Member] = []
        # The names of other processes, beside those that are written down; those that were not there at the
        # last look; and those that have ended, as far as their calls have not.
        self._known: set[str] = set()
        self._suspected: frozenset[str] = frozenset()
        self._dead: set[str] = set()
        self._following: set[str] = set()
        self._turns: KeyedLock[str] = KeyedLock()
        self._woken = asyncio.Event()
        self._is_all_wanted = False
        self._next_look = 0.0
        self._is_troubled = False
        self._is_closed = False
        self._background = BackgroundTasks()

    def use(self, local: "SmcpServer") -> None:
        """Once, before `start`."""
        self._local = local

    async def start(self) -> None:
        self._locks = await Database.connect(self._database.address, minimum=1, maximum=MOST_TURNS)
        self._broker.hear(CHANGED, self._hear_changed)
        self._broker.hear(UPDATED, self._hear_updated)
        self._broker.hear(BEGUN, self._hear_begun)
        self._broker.hear(HERE, self._hear_here)
        self._broker.renewed = self._look_at_all_soon
        await self._look_at_all()
        self._broker.say(BEGUN, {"process": self._process.name})
        self._background.supervise("members at other processes", self._look_for_ever)

    async def close(self) -> None:
        """Once everybody has left."""
        self._is_closed = True
        await self._background.close()
        try:
            await self._pay()
        except Exception as error:
            self._report("That some have left could not be written down.", error)
        if self._locks is not None:
            await self._locks.close()

    def updated(self, member: Member, notice: str) -> None:
        """Of a Computer that is connected here."""
        self._broker.say(UPDATED, {"office_id": member.office_id, "sid": member.sid, "notice": notice})

    # -- what memberships ask --

    @asynccontextmanager
    async def turn(self, office_ids: Collection[str]) -> AsyncIterator[None]:
        """In it the offices belong to no other connection of any process, and it is known who is there."""
        assert self._locks is not None, "it is started"
        is_done = False
        try:
            async with AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(TIMEOUT):
                        connection = await stack.enter_async_context(self._locks.transaction())
                        # All in the same order: nobody waits for somebody who waits for it.
                        for office_id in sorted(office_ids):
                            await office_records.lock_office(connection, office_id)
                except TimeoutError:
                    raise OfficeBusy(", ".join(sorted(office_ids))) from None
                for office_id in office_ids:
                    await self.look(office_id)
                try:
                    yield
                finally:
                    self._say_changed(office_ids)
                is_done = True
        except ConnectionLost:
            # The lock has ended with its connection.
            if not is_done:
                raise

    def wrote(self, office_id: str) -> None:
        """In a turn: other processes are notified afterwards that a member has come or gone."""
        self._changed.add(office_id)

    async def look(self, office_id: str) -> None:
        """In the office's turn of this process, so that what is older does not come later."""

        async def fetch(connection: Connection) -> list[PresentMember]:
            return await office_records.fetch_present_members_of_office(connection, office_id)

        self._note(office_id, map(read_seated, await self._database.read(fetch)))

    def room(self, office_id: str) -> SharedRoom:
        """The members that are connected to other processes."""
        written = self._written.get(office_id)
        return NOBODY if written is None else companions(seated(written), self._process.name)

    def has(self, member: Member) -> bool:
        """Whether it is written down that a member of this process is there."""
        return any(self._is(member, one) for one in self._written.get(member.office_id, ()))

    def unseated(self, office_id: str, members: Iterable[Member]) -> list[Member]:
        """Which of these of this process have lost their places: it was thought to have ended."""
        return unseated(seated(self._written.get(office_id, ())), members, self._process.name)

    def is_free(self, member: Member) -> bool:
        """Whether one of those can have its place again."""
        there = seated(self._written.get(member.office_id, ()))
        return is_free([one for one in there if not self._is(member, one)], member)

    def owe(self, member: Member) -> None:
        """It has gone, and that could not be written down yet."""
        self._owed.append(member)

    # -- what others say --

    def _hear_changed(self, said: Mapping[str, Any]) -> None:
        office_id = said.get("office_id")
        if isinstance(office_id, str):
            self._follow_soon(office_id)

    def _hear_updated(self, said: Mapping[str, Any]) -> None:
        """After what was said before of who is there."""
        office_id, sid, notice = said.get("office_id"), said.get("sid"), said.get("notice")
        if isinstance(office_id, str) and isinstance(sid, str) and notice in _NOTICES:
            self._spawn(self._tell(office_id, sid, str(notice)))

    def _hear_begun(self, said: Mapping[str, Any]) -> None:
        self._hear_here(said)
        self._broker.say(HERE, {"process": self._process.name})
        self._look_at_all_soon()

    def _hear_here(self, said: Mapping[str, Any]) -> None:
        name = said.get("process")
        if isinstance(name, str) and len(self._known) < MOST_KNOWN:
            self._known.add(name)

    async def _tell(self, office_id: str, sid: str, notice: str) -> None:
        assert self._local is not None, "it is given before the start"
        async with self._turns.hold(office_id):
            await self._local.told(sid, notice)

    def _follow_soon(self, office_id: str) -> None:
        """Once for all that is said until then."""
        if office_id not in self._following and not self._is_closed:
            self._following.add(office_id)
            self._spawn(self._follow(office_id))

    async def _follow(self, office_id: str) -> None:
        assert self._local is not None, "it is given before the start"
        async with self._turns.hold(office_id):
            self._following.discard(office_id)
            await self._local.follow(office_id)
        if self.room(office_id).members:
            self.others(office_id)
        if not self._has_followed(office_id):
            # Somebody is in the way who is on its way out.
            asyncio.get_running_loop().call_later(FOLLOWED_AGAIN, self._follow_soon, office_id)

    def _has_followed(self, office_id: str) -> bool:
        assert self._local is not None, "it is given before the start"
        return frozenset(self.room(office_id).members) == frozenset(self._local.companions(office_id))

    def _say_changed(self, office_ids: Iterable[str]) -> None:
        for office_id in office_ids:
            if office_id in self._changed:
                self._changed.discard(office_id)
                self._broker.say(CHANGED, {"office_id": office_id})

    # -- looking --

    def _look_at_all_soon(self) -> None:
        self._is_all_wanted = True
        self._woken.set()

    async def _look_for_ever(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOKED_AT_EVERY):
                    await self._woken.wait()
            self._woken.clear()
            try:
                if await self._process.keep():
                    # Others may have been cut off as well, and need a moment to be there again.
                    self._suspected, self._is_all_wanted = frozenset(), True
                await self._pay()
                if self._is_all_wanted or self._monotonic() >= self._next_look:
                    await self._look_at_all()
                await self._put_away()
                self._is_troubled = False
            except Exception as error:
                # Whatever it is: the next look has to come.
                if not self._is_troubled:
                    self._report("Who is connected to other processes of the node is looked up later.", error)
                self._is_troubled = True

    async def _look_at_all(self) -> None:
        self._is_all_wanted, self._next_look = False, self._monotonic() + ALL_LOOKED_AT_EVERY
        async with self._database.transaction(readonly=True) as connection:
            there = await office_records.fetch_present_members(connection)
        found: dict[str, list[Seated]] = {}
        for one in there:
            found.setdefault(one.office_id, []).append(read_seated(one))
        for office_id in {*found, *self._written}:
            is_known = tuple(found.get(office_id, ())) == self._written.get(office_id, ())
            if not is_known or not self._has_followed(office_id):
                self._follow_soon(office_id)

    async def _put_away(self) -> None:
        """What processes have left behind that are no more."""
        known = self._known.union(*map(processes, self._written.values())) - {self._process.name}
        if not known:
            return
        ended = await self._process.ended(known)
        self._dead |= ended & self._suspected
        self._suspected = ended
        if not self._dead:
            return
        for office_id in tuple(self._written):
            if processes(self._written.get(office_id, ())) & self._dead:
                async with self.turn({office_id}):
                    for one in self._written.get(office_id, ()):
                        if one.process in self._dead:
                            await self._records.left(Member(one.sid, one.role, one.name, office_id))
                            self.wrote(office_id)
                await self._follow(office_id)
        assert self._local is not None, "it is given before the start"
        for office_id, call in await self._records.interrupted(self._dead):
            await self._local.stop_call(office_id, call)
        self._known -= self._dead
        self._dead.clear()

    async def _pay(self) -> None:
        """What could not be written down when it was."""
        while self._owed:
            member = self._owed[0]
            async with self.turn({member.office_id}):
                if self.has(member):
                    await self._records.left(member)
                    self.wrote(member.office_id)
            del self._owed[0]

    # -- inside --

    def _is(self, member: Member, one: Seated) -> bool:
        return one.process == self._process.name and one.sid == member.sid

    def _note(self, office_id: str, there: Iterable[Seated]) -> None:
        written = tuple(there)
        stayed = {(one.sid, one.name) for one in written}
        for one in self._written.get(office_id, ()):
            if (one.sid, one.name) not in stayed and one.process != self._process.name:
                self._records.forget(office_id, one.name)
        if written:
            self._written[office_id] = written
        else:
            self._written.pop(office_id, None)

    def _spawn(self, doing: Any) -> None:
        async def run() -> None:
            try:
                await doing
            except Exception as error:
                self._report("Who is connected to other processes of the node is looked up later.", error)
                self._look_at_all_soon()

        self._background.spawn("a member at another process", run())


_NOTICES: Final = frozenset(UPDATES.values())
