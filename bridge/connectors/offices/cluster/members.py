"""Members connected to other processes of this node.

The call log in Postgres is the only record of members. A process that adds or removes one holds a lock on the
office, then notifies the others through the broker, and they reload the office. Members and calls of a
process that has ended are cleaned up by the others.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from bridge.connectors.offices.cluster.broker import Broker
from bridge.connectors.offices.cluster.member_rules import (
    RecordedMember,
    active_members,
    can_restore,
    displaced_members,
    members_of_other_processes,
    processes_of,
)
from bridge.connectors.offices.federated.shared_room import NO_MEMBERS, OfficeMembers
from bridge.connectors.offices.protocol.events import UPDATES
from bridge.connectors.offices.protocol.office import Member
from bridge.connectors.offices.rooms.call_log import OfficeRecords
from bridge.connectors.offices.rooms.record_rows import read_recorded_member
from bridge.observability.report import Report
from storage.concurrency import BackgroundTasks, KeyedLock
from storage.connect import ConnectionLost
from storage.database import Connection, Database
from storage.offices import records as office_records
from storage.offices.records import PresentMember

if TYPE_CHECKING:
    from bridge.connectors.offices.server.server import SmcpServer


CHANGED: Final = "changed"
"""The members of an office."""
UPDATED: Final = "updated"
"""A Computer has sent an update, of which its office is notified."""
STARTED: Final = "begun"
"""A process has started. It may have cleaned up after one that ended."""
RUNNING: Final = "here"
"""Sent by the other processes when one starts."""
MAX_LOCKS: Final = 4
"""Concurrent membership changes of one process. Each takes a Postgres connection."""
LOCK_TIMEOUT: Final = 10.0
"""Seconds to wait for the lock of an office."""
CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks of the other processes. A process that fails two checks in a row counts as
ended."""
RELOAD_INTERVAL: Final = 10.0
"""Seconds between two reloads of all offices, which find changes whose notification was lost."""


RETRY_DELAY: Final = 1.0
MAX_PROCESSES: Final = 1_000


class OfficeBusy(Exception):
    """Another process holds the lock of the office for too long."""


class ClusterMembers:
    """Keeps track of the members connected to other processes. Runs between `start` and `close`.
    `on_remote_members` is called with the id of an office that has members on other processes."""

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
        self._server: SmcpServer | None = None
        self.on_remote_members: Callable[[str], None] = lambda office_id: None
        # A separate pool for locks: code that holds a lock waits for connections of the node's own pool.
        self._lock_database: Database | None = None
        self._recorded: dict[str, tuple[RecordedMember, ...]] = {}
        self._changed: set[str] = set()
        self._pending_leaves: list[Member] = []
        # The names of processes without recorded members; those that failed the last check; and those that
        # have ended but whose calls have not been cleaned up yet.
        self._known: set[str] = set()
        self._suspected: frozenset[str] = frozenset()
        self._ended: set[str] = set()
        self._refreshing: set[str] = set()
        self._locks: KeyedLock[str] = KeyedLock()
        self._woken = asyncio.Event()
        self._reload_requested = False
        self._next_reload = 0.0
        self._is_failing = False
        self._is_closed = False
        self._background = BackgroundTasks()

    def use_server(self, server: "SmcpServer") -> None:
        """Must be called once, before `start`."""
        self._server = server

    async def start(self) -> None:
        self._lock_database = await Database.connect(self._database.address, minimum=1, maximum=MAX_LOCKS)
        self._broker.subscribe(CHANGED, self._on_changed)
        self._broker.subscribe(UPDATED, self._on_updated)
        self._broker.subscribe(STARTED, self._on_started)
        self._broker.subscribe(RUNNING, self._on_running)
        self._broker.on_reconnected = self._request_reload
        await self._reload_all()
        self._broker.publish(STARTED, {"process": self._process.name})
        self._background.supervise("members at other processes", self._run)

    async def close(self) -> None:
        """To be called after all members of this process have left."""
        self._is_closed = True
        await self._background.close()
        try:
            await self._record_pending_leaves()
        except Exception as error:
            self._report("Failed to record that members have left their offices.", error)
        if self._lock_database is not None:
            await self._lock_database.close()

    def publish_update(self, member: Member, notice: str) -> None:
        """Forward the update of a Computer that is connected to this process."""
        self._broker.publish(UPDATED, {"office_id": member.office_id, "sid": member.sid, "notice": notice})

    # -- the interface for `Memberships` --

    @asynccontextmanager
    async def lock(self, office_ids: Collection[str]) -> AsyncIterator[None]:
        """Lock the offices against changes by any process, and reload their members. Raises `OfficeBusy`."""
        assert self._lock_database is not None, "start was called"
        is_done = False
        try:
            async with AsyncExitStack() as stack:
                try:
                    async with asyncio.timeout(LOCK_TIMEOUT):
                        connection = await stack.enter_async_context(self._lock_database.transaction())
                        # A fixed order prevents deadlocks.
                        for office_id in sorted(office_ids):
                            await office_records.lock_office(connection, office_id)
                except TimeoutError:
                    raise OfficeBusy(", ".join(sorted(office_ids))) from None
                for office_id in office_ids:
                    await self.reload(office_id)
                try:
                    yield
                finally:
                    self._publish_changed(office_ids)
                is_done = True
        except ConnectionLost:
            # The lock ended with its connection; if the change is complete, nothing is lost.
            if not is_done:
                raise

    def mark_changed(self, office_id: str) -> None:
        """While an office is locked: notify the other processes when it is unlocked."""
        self._changed.add(office_id)

    async def reload(self, office_id: str) -> None:
        """Read the office's members. The caller holds the office's lock of this process, so that an older
        result cannot replace a newer one."""

        async def fetch(connection: Connection) -> list[PresentMember]:
            return await office_records.fetch_present_members_of_office(connection, office_id)

        self._set_recorded(office_id, map(read_recorded_member, await self._database.read(fetch)))

    def remote_members(self, office_id: str) -> OfficeMembers:
        """The members that are connected to other processes."""
        recorded = self._recorded.get(office_id)
        if recorded is None:
            return NO_MEMBERS
        return members_of_other_processes(active_members(recorded), self._process.name)

    def is_recorded(self, member: Member) -> bool:
        """Whether a member of this process is recorded as present."""
        return any(self._is_same(member, one) for one in self._recorded.get(member.office_id, ()))

    def displaced(self, office_id: str, members: Iterable[Member]) -> list[Member]:
        """Members of this process that are no longer recorded: another process treated this one as ended."""
        return displaced_members(active_members(self._recorded.get(office_id, ())), members, self._process.name)

    def can_restore(self, member: Member) -> bool:
        """Whether a displaced member can be recorded again."""
        active = active_members(self._recorded.get(member.office_id, ()))
        return can_restore([one for one in active if not self._is_same(member, one)], member)

    def record_leave_later(self, member: Member) -> None:
        """The member has left, but recording it failed."""
        self._pending_leaves.append(member)

    # -- messages of other processes --

    def _on_changed(self, content: Mapping[str, Any]) -> None:
        office_id = content.get("office_id")
        if isinstance(office_id, str):
            self._refresh_soon(office_id)

    def _on_updated(self, content: Mapping[str, Any]) -> None:
        """Handled after the changes of members that were published before."""
        office_id, sid, notice = content.get("office_id"), content.get("sid"), content.get("notice")
        if isinstance(office_id, str) and isinstance(sid, str) and notice in _NOTICES:
            self._spawn(self._handle_update(office_id, sid, str(notice)))

    def _on_started(self, content: Mapping[str, Any]) -> None:
        self._on_running(content)
        self._broker.publish(RUNNING, {"process": self._process.name})
        self._request_reload()

    def _on_running(self, content: Mapping[str, Any]) -> None:
        name = content.get("process")
        if isinstance(name, str) and len(self._known) < MAX_PROCESSES:
            self._known.add(name)

    async def _handle_update(self, office_id: str, sid: str, notice: str) -> None:
        assert self._server is not None, _USE_SERVER
        async with self._locks.hold(office_id):
            await self._server.handle_remote_update(sid, notice)

    def _refresh_soon(self, office_id: str) -> None:
        """One refresh covers all notifications that arrive before it."""
        if office_id not in self._refreshing and not self._is_closed:
            self._refreshing.add(office_id)
            self._spawn(self._refresh(office_id))

    async def _refresh(self, office_id: str) -> None:
        assert self._server is not None, _USE_SERVER
        async with self._locks.hold(office_id):
            self._refreshing.discard(office_id)
            await self._server.refresh_members(office_id)
        if self.remote_members(office_id).by_user:
            self.on_remote_members(office_id)
        if not self._is_applied(office_id):
            # A member that is about to leave blocks another one's name or seat.
            asyncio.get_running_loop().call_later(RETRY_DELAY, self._refresh_soon, office_id)

    def _is_applied(self, office_id: str) -> bool:
        assert self._server is not None, _USE_SERVER
        recorded = frozenset(self.remote_members(office_id).by_user)
        return recorded == frozenset(self._server.cluster_members(office_id))

    def _publish_changed(self, office_ids: Iterable[str]) -> None:
        for office_id in office_ids:
            if office_id in self._changed:
                self._changed.discard(office_id)
                self._broker.publish(CHANGED, {"office_id": office_id})

    # -- periodic work --

    def _request_reload(self) -> None:
        self._reload_requested = True
        self._woken.set()

    async def _run(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_INTERVAL):
                    await self._woken.wait()
            self._woken.clear()
            try:
                if await self._process.renew():
                    # Other processes may have lost their leases as well, and need time to renew them.
                    self._suspected, self._reload_requested = frozenset(), True
                await self._record_pending_leaves()
                if self._reload_requested or self._monotonic() >= self._next_reload:
                    await self._reload_all()
                await self._clean_up()
                self._is_failing = False
            except Exception as error:
                # The loop must go on, whatever the error is.
                if not self._is_failing:
                    self._report(_RELOAD_FAILED, error)
                self._is_failing = True

    async def _reload_all(self) -> None:
        self._reload_requested, self._next_reload = False, self._monotonic() + RELOAD_INTERVAL
        async with self._database.transaction(readonly=True) as connection:
            there = await office_records.fetch_present_members(connection)
        found: dict[str, list[RecordedMember]] = {}
        for one in there:
            found.setdefault(one.office_id, []).append(read_recorded_member(one))
        for office_id in {*found, *self._recorded}:
            is_known = tuple(found.get(office_id, ())) == self._recorded.get(office_id, ())
            if not is_known or not self._is_applied(office_id):
                self._refresh_soon(office_id)

    async def _clean_up(self) -> None:
        """Remove the members and cancel the calls of processes that have ended."""
        recorded = map(processes_of, self._recorded.values())
        known = self._known.union(*recorded) - {self._process.name}
        if not known:
            return
        ended = await self._process.ended(known)
        self._ended |= ended & self._suspected
        self._suspected = ended
        if not self._ended:
            return
        for office_id in tuple(self._recorded):
            if processes_of(self._recorded.get(office_id, ())) & self._ended:
                async with self.lock({office_id}):
                    for one in self._recorded.get(office_id, ()):
                        if one.process in self._ended:
                            await self._records.record_left(Member(one.sid, one.role, one.name, office_id))
                            self.mark_changed(office_id)
                await self._refresh(office_id)
        assert self._server is not None, _USE_SERVER
        for office_id, call in await self._records.record_interrupted(self._ended):
            await self._server.cancel_orphaned_call(office_id, call)
        self._known -= self._ended
        self._ended.clear()

    async def _record_pending_leaves(self) -> None:
        while self._pending_leaves:
            member = self._pending_leaves[0]
            async with self.lock({member.office_id}):
                if self.is_recorded(member):
                    await self._records.record_left(member)
                    self.mark_changed(member.office_id)
            del self._pending_leaves[0]

    # -- internals --

    def _is_same(self, member: Member, one: RecordedMember) -> bool:
        return one.process == self._process.name and one.sid == member.sid

    def _set_recorded(self, office_id: str, members: Iterable[RecordedMember]) -> None:
        recorded = tuple(members)
        stayed = {(one.sid, one.name) for one in recorded}
        for one in self._recorded.get(office_id, ()):
            if (one.sid, one.name) not in stayed and one.process != self._process.name:
                self._records.remove_tools(office_id, one.name)
        if recorded:
            self._recorded[office_id] = recorded
        else:
            self._recorded.pop(office_id, None)

    def _spawn(self, work: Any) -> None:
        async def run() -> None:
            try:
                await work
            except Exception as error:
                self._report(_RELOAD_FAILED, error)
                self._request_reload()

        self._background.spawn("change at another process", run())


_NOTICES: Final = frozenset(UPDATES.values())
_USE_SERVER: Final = "use_server was called"
_RELOAD_FAILED: Final = "Failed to load the members connected to other processes. It is tried again."
