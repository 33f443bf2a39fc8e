"""Connections and memberships: which member is in which office.

Members are connected to this process, to another process of this node, or, in shared offices, to another
node. Changes of an office are serialised. Each is recorded before it takes effect; then the other members are
notified.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from bridge.connectors.offices.federated.shared_room import (
    NO_MEMBERS,
    Eviction,
    OfficeMembers,
    RemoteJoined,
    RemoteLeft,
    RemoteMember,
    membership_changes,
)
from bridge.connectors.offices.protocol.events import ENTERED, LEFT
from bridge.connectors.offices.protocol.office import (
    Disconnect,
    Effects,
    Join,
    Leave,
    LeaveEffect,
    Member,
    OfficeMembership,
    Rejection,
    is_remote,
)
from bridge.connectors.offices.protocol.versions import ProtocolVersion
from bridge.connectors.offices.tokens import Grant
from bridge.observability.report import Report
from storage.concurrency import KeyedLock

if TYPE_CHECKING:
    from bridge.connectors.offices.cluster.members import ClusterMembers
    from bridge.connectors.offices.federated.shared_offices import SharedOffices
    from bridge.connectors.offices.rooms.call_log import OfficeRecords


@dataclass(eq=False, slots=True)
class Connection:
    """A client's connection to this node's offices, from its CONNECT to its end.

    `lock` serialises membership changes; requests wait for it, because published clients send a request right
    after a join without waiting for its acknowledgement. `reads_tasks`: the client declared that it accepts
    tasks. `client_office_id` is the office id as the client writes it. `eviction_reason` says why the member
    was removed from its office."""

    sid: str
    grant: Grant
    version: ProtocolVersion | None
    reads_tasks: bool = False
    client_office_id: str = ""
    eviction_reason: str = ""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def joined(self, client_office_id: str) -> None:
        self.client_office_id, self.eviction_reason = client_office_id, ""

    async def wait_for_membership_change(self) -> None:
        if self.lock.locked():
            async with self.lock:
                pass


DISPLACED: Final = "its process was unreachable, and another member has taken its name or its seat"
Emit = Callable[[str, Any, str], Awaitable[None]]
"""Takes an event, its payload and the id of the receiving connection."""


class OfficeUnreachable(Exception):
    """The office cannot be joined. The message is sent to the client."""


class NoSharedOffices:
    """Takes the place of `SharedOffices` on a node that shares no offices."""

    async def enter(self, office_id: str) -> None:
        pass

    def remote_members(self, office_id: str) -> OfficeMembers:
        return NO_MEMBERS

    def user_id(self, member: Member) -> str:
        return ""

    async def wait_until_published(self, office_id: str) -> None:
        pass


class SingleProcess:
    """Takes the place of `ClusterMembers` on a node with one process."""

    def lock(self, office_ids: Collection[str]) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def mark_changed(self, office_id: str) -> None:
        pass

    async def reload(self, office_id: str) -> None:
        pass

    def remote_members(self, office_id: str) -> OfficeMembers:
        return NO_MEMBERS

    def is_recorded(self, member: Member) -> bool:
        return True

    def displaced(self, office_id: str, members: Iterable[Member]) -> list[Member]:
        return []

    def can_restore(self, member: Member) -> bool:
        return True

    def record_leave_later(self, member: Member) -> None:
        """The node records it at its next start."""


class Memberships:
    """Adds and removes members, records the changes and notifies the other members. `emit` sends an event to
    a connection. `on_left` is called for each member that is no longer in its office, and `on_changed` after
    each change."""

    def __init__(
        self,
        max_members: int,
        records: "OfficeRecords",
        emit: Emit,
        *,
        on_left: Callable[[str], Awaitable[None]],
        report: Report,
        shared: "SharedOffices | None" = None,
        cluster: "ClusterMembers | None" = None,
    ) -> None:
        self.offices = OfficeMembership(max_members)
        self.connections: dict[str, Connection] = {}
        self.on_changed: Callable[[], None] = lambda: None
        self._records = records
        self._emit = emit
        self._on_left = on_left
        self._report = report
        self._shared: SharedOffices | NoSharedOffices = shared or NoSharedOffices()
        self._cluster: ClusterMembers | SingleProcess = cluster or SingleProcess()
        # By connection id. For a member that is connected to another node this is its user id.
        self._remote: dict[str, RemoteMember] = {}
        self._disconnecting: dict[str, Connection] = {}
        self._locks: KeyedLock[str] = KeyedLock()

    def version_of(self, sid: str) -> ProtocolVersion | None:
        connection = self.connections.get(sid)
        if connection is not None:
            return connection.version
        remote = self._remote.get(sid)
        return None if remote is None else remote.version

    def is_remote(self, sid: str) -> bool:
        """Whether the member is connected to another node."""
        member = self.offices.member(sid)
        return sid in self._remote and (member is None or is_remote(member))

    async def notify_office(self, event: str, payload: dict[str, Any], sender: Member) -> None:
        """Send an event to all other members of the sender's office that are connected to this process. Each
        receives the office id in the form that it uses itself."""
        for member in self.offices.members(sender.office_id):
            connection = self.connections.get(member.sid)
            if connection is not None and member.sid != sender.sid:
                own = {**payload, "office_id": connection.client_office_id} if "office_id" in payload else payload
                await self._emit(event, own, member.sid)

    # -- members connected to this process --

    async def change(
        self, connection: Connection, request: Join | Leave, client_office_id: str
    ) -> tuple[bool, str | None]:
        """Return the acknowledgement of a join or leave. `client_office_id` is the office id as the client
        writes it."""
        sid = connection.sid
        async with connection.lock:
            if sid not in self.connections:
                return False, "The connection has ended"
            before = self.offices.member(sid)
            if isinstance(request, Join):
                try:
                    await self._shared.enter(request.office_id)
                except OfficeUnreachable as problem:
                    return False, str(problem)
                await self._wait_for_disconnects(request.office_id)
            offices = {request.office_id, *([] if before is None else [before.office_id])}
            async with AsyncExitStack() as stack:
                for office_id in sorted(offices):
                    await stack.enter_async_context(self._locks.hold(office_id))
                await stack.enter_async_context(self._cluster.lock(offices))
                for office_id in sorted(offices):
                    await self._apply_remote_changes(office_id)
                effects = self.offices.decide(sid, request)
                if isinstance(effects, Rejection):
                    return False, effects.reason
                await self._record(sid, effects)
                if isinstance(request, Join):
                    connection.joined(client_office_id)
                await self._apply(sid, effects)
            if isinstance(request, Join):
                await self._shared.wait_until_published(request.office_id)
        return True, None

    async def disconnect(self, sid: str) -> None:
        """Remove a connection that has ended, and its membership."""
        connection = self.connections.get(sid)
        if connection is None:
            return
        async with connection.lock:
            if self.connections.pop(sid, None) is None:
                return
            self._disconnecting[sid] = connection
            effects = self.offices.decide(sid, Disconnect())
            assert not isinstance(effects, Rejection), "a disconnect is never rejected"
            try:
                async with self._cluster.lock({effect.member.office_id for effect in effects}):
                    await self._record(sid, effects)
            except Exception as error:
                # The connection has ended in any case. The leave is recorded later.
                self._report(f"Failed to record that {connection.grant.owner} left its office.", error)
                for effect in effects:
                    self._cluster.record_leave_later(effect.member)
            try:
                await self._apply(sid, effects)
            finally:
                self.offices.forget(sid)
                del self._disconnecting[sid]
        await self._on_left(sid)

    async def _wait_for_disconnects(self, office_id: str) -> None:
        """A client that reconnects at once finds its place free again, although the leave of its old
        connection was still being recorded."""
        for member in self.offices.members(office_id):
            if (connection := self._disconnecting.get(member.sid)) is not None:
                await connection.wait_for_membership_change()

    # -- members connected to other nodes and to other processes --

    async def refresh(self, office_id: str) -> None:
        """Apply the current members of other nodes and other processes: the state of the office's room, or
        the records of another process, have changed."""
        async with self._locks.hold(office_id):
            await self._cluster.reload(office_id)
            here = [one for one in self.offices.members(office_id) if one.sid in self.connections]
            displaced = self._cluster.displaced(office_id, here)
        for member in displaced:
            await self._restore_or_evict(member)
        for change in self._changes(office_id):
            if isinstance(change, Eviction):
                await self._evict(change.member)
        async with self._locks.hold(office_id):
            await self._apply_remote_changes(office_id)

    def cluster_members(self, office_id: str) -> frozenset[str]:
        """The connection ids of the office's members that are connected to other processes of this node."""
        here = self.offices.members(office_id)
        return frozenset(one.sid for one in here if one.sid in self._remote and not is_remote(one))

    def has_local_members(self, office_id: str) -> bool:
        """Whether any member is connected to this node, to whichever process."""
        return any(not is_remote(one) for one in self.offices.members(office_id))

    # -- internals --

    def _changes(self, office_id: str) -> list[RemoteLeft | Eviction | RemoteJoined]:
        here = self.offices.members(office_id)
        local = {one.sid: self._shared.user_id(one) for one in here if one.sid not in self._remote}
        room, cluster = self._shared.remote_members(office_id), self._cluster.remote_members(office_id)
        if cluster.by_user:
            room = OfficeMembers({**cluster.by_user, **room.by_user})
        return membership_changes(room, here, local, self._remote)

    async def _apply_remote_changes(self, office_id: str) -> None:
        """The caller holds the office's lock. Evictions are not applied here: they need the lock of the
        evicted member's connection."""
        for change in self._changes(office_id):
            if isinstance(change, RemoteLeft):
                if self._is_in(change.user, office_id):
                    await self._remove_remote(change.user)
            elif isinstance(change, RemoteJoined):
                one = change.member
                if self.offices.member(one.user) is not None:
                    # A connection is in one office, so it has left the other one. Each office is loaded under
                    # its own lock, so the older of the two views is outdated; it is refreshed again.
                    if one.since < self._remote[one.user].since:
                        continue
                    await self._remove_remote(one.user)
                join = Join(one.role, one.name, office_id)
                effects = self.offices.decide(one.user, join)
                # The member that blocks this join is about to leave; the office is refreshed after that.
                if not isinstance(effects, Rejection):
                    self._remote[one.user] = one
                    await self._apply(one.user, effects)

    async def _remove_remote(self, sid: str) -> None:
        """Remove a member that is not connected to this process. The caller may hold another office's lock,
        so nothing may be awaited before the removal takes effect."""
        effects = self.offices.decide(sid, Disconnect())
        assert not isinstance(effects, Rejection), "a disconnect is never rejected"
        self.offices.apply(sid, effects)
        self.offices.forget(sid)
        self._remote.pop(sid, None)
        for effect in effects:
            await self._notify_left(effect.member)

    def _is_in(self, sid: str, office_id: str) -> bool:
        member = self.offices.member(sid)
        return member is not None and member.office_id == office_id

    async def _evict(self, member: Member) -> None:
        """The member learns the reason from the answer to its next request: published clients ignore one in a
        notification."""
        connection = self.connections.get(member.sid)
        if connection is None:
            return
        async with connection.lock, self._locks.hold(member.office_id):
            reasons = [
                change.reason
                for change in self._changes(member.office_id)
                if isinstance(change, Eviction) and change.member == member
            ]
            if not reasons:
                return
            try:
                async with self._cluster.lock({member.office_id}):
                    await self._record_left(member, reasons[0])
            except Exception as error:
                self._report(f"Failed to record that {member.name} was removed from its office.", error)
                self._cluster.record_leave_later(member)
            await self._remove_evicted(connection, member, reasons[0])

    async def _restore_or_evict(self, member: Member) -> None:
        """Another process recorded that this member left, because it took this process for ended. Record the
        member again, or evict it if another member has taken its name or seat."""
        connection = self.connections.get(member.sid)
        if connection is None:
            return
        office_id = member.office_id
        async with connection.lock, self._locks.hold(office_id), self._cluster.lock({office_id}):
            is_here = self.offices.member(member.sid) == member
            if not is_here or not self._cluster.displaced(office_id, [member]):
                return
            if self._cluster.can_restore(member):
                await self._records.record_joined(member, connection.version)
                self._cluster.mark_changed(office_id)
            else:
                await self._record_left(member, DISPLACED)
                await self._remove_evicted(connection, member, DISPLACED)

    async def _remove_evicted(self, connection: Connection, member: Member, reason: str) -> None:
        """The caller holds the locks of the connection and of the office."""
        await self._apply(member.sid, (LeaveEffect(member),))
        connection.eviction_reason = reason
        payload = {"office_id": connection.client_office_id, member.role: member.name}
        await self._emit(LEFT, payload, member.sid)

    async def _record(self, sid: str, effects: Effects) -> None:
        """Record all effects before any of them is applied."""
        for effect in effects:
            if isinstance(effect, LeaveEffect):
                await self._record_left(effect.member)
            else:
                await self._records.record_joined(effect.member, self.version_of(sid))
                self._cluster.mark_changed(effect.member.office_id)

    async def _record_left(self, member: Member, reason: str = "") -> None:
        """Skipped if the member is no longer recorded, because another one has taken its name."""
        if self._cluster.is_recorded(member):
            await self._records.record_left(member, reason)
            self._cluster.mark_changed(member.office_id)

    async def _apply(self, sid: str, effects: Effects) -> None:
        """Each effect is applied before the other members are notified of it."""
        for effect in effects:
            self.offices.apply(sid, (effect,))
            if isinstance(effect, LeaveEffect):
                await self._notify_left(effect.member)
            else:
                await self.notify_office(ENTERED, _notification(effect.member), effect.member)
                self.on_changed()

    async def _notify_left(self, member: Member) -> None:
        await self.notify_office(LEFT, _notification(member), member)
        await self._on_left(member.sid)
        self.on_changed()


def _notification(member: Member) -> dict[str, Any]:
    return {"office_id": member.office_id, member.role: member.name}
