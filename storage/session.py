"""The session of this process with Postgres: notifications between the processes of a node, and leases.

A lease is an advisory lock of the session. However the process ends, `kill -9` included, Postgres releases
its locks, so that another process can take them. When the session is lost, its leases are lost at once.

A notification may be lost, so its receivers also poll the tables: after each (re)connect and every 30
seconds.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from types import TracebackType
from typing import Final, Self, TypeAlias

import asyncpg
import structlog

from storage.concurrency import BackgroundTasks
from storage.connect import BROKEN_CONNECTION_ERRORS, Connection, ConnectionLost, DatabaseAddress, connect_once
from storage.errors import LocalError
from storage.statements import load

SQL = load("storage", "session.sql")

CHANNEL: Final = "palaver"
MAX_PAYLOAD_BYTES: Final = 7_900
"""Postgres refuses notifications of 8,000 bytes; the sender's name and the topic need a few of them."""
MAX_PENDING: Final = 10_000
"""Maximum number of notifications that wait to be sent. The receivers discover the others when they poll."""
POLL_INTERVAL: Final = 30.0
CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks that the session responds and whether other processes listen."""
RETRY_INTERVAL: Final = 0.5
"""Seconds before a lease that another process holds is requested again, and before a reconnect."""
RESPONSE_TIMEOUT: Final = 5.0
"""Seconds after which a session that does not respond counts as lost."""
CLOSE_TIMEOUT: Final = 2.0
CONNECT_TIMEOUT: Final = 10.0

_LOST_ERRORS: Final[tuple[type[Exception], ...]] = (*BROKEN_CONNECTION_ERRORS, OSError, TimeoutError)
_UNAVAILABLE_ERRORS: Final[tuple[type[Exception], ...]] = (*_LOST_ERRORS, LocalError)
_POLL_ALL: Final = "*"
_CONNECTED: Final = "+"

Receiver: TypeAlias = Callable[[str | None], None]
"""Called with a payload, or with None: notifications may have been missed, poll the tables."""


log = structlog.get_logger("palaver.session")


class LeaseLost(ConnectionLost):
    """The session has ended, and with it the lease."""


class Session:
    """Connects at its first use, and again whenever the connection is lost."""

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address
        self._name = secrets.token_hex(8)
        self._tasks = BackgroundTasks()
        self._is_started = False
        self._connection: Connection | None = None
        # The pid and the start time of the previous connection's backend.
        self._previous: tuple[int, datetime] | None = None
        self._connected = asyncio.Event()
        self._in_use = asyncio.Lock()
        self._wake = asyncio.Event()
        self._receivers: dict[str, list[Receiver]] = {}
        self._outgoing: dict[tuple[str, str], None] = {}
        self._is_alone = False
        # Whether the loss of the connection has been logged.
        self._is_unavailable = False
        self._count_received = 0
        self._leases: dict[str, Lease] = {}

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    @property
    def is_alone(self) -> bool:
        """Whether no other process listens. Then no notifications are sent: nearly every node is one
        process."""
        return self._is_alone

    async def close(self) -> None:
        """Send the pending notifications and end all leases and subscriptions."""
        if self._connection is not None:
            await self._send(self._connection)
        await self._tasks.close()

    # -- notifications --

    def subscribe(self, topic: str, receive: Receiver) -> Callable[[], None]:
        """Call `receive` with each payload that another process sends on the topic, and with None whenever it
        should poll the tables. Returns a function that ends the subscription."""
        receivers = self._receivers.setdefault(topic, [])
        receivers.append(receive)
        if self._connection is not None:
            asyncio.get_running_loop().call_soon(self._deliver, topic, None, [receive])
        self._start()

        def end() -> None:
            if receive in receivers:
                receivers.remove(receive)

        return end

    def notify(self, topic: str, payload: str = "") -> None:
        """Notify the other processes. Call it after the commit: notifications are sent in batches outside any
        transaction, because Postgres commits transactions with notifications one at a time."""
        if not self._is_alone and len(self._outgoing) < MAX_PENDING:
            self._outgoing[topic, payload] = None
            self._wake.set()
            self._start()

    # -- leases --

    @contextlib.asynccontextmanager
    async def lease(self, name: str) -> "AsyncIterator[Lease]":
        """Wait until no other process or task holds the lease, and hold it while the block runs. When the
        lease is lost the block is cancelled, and LeaseLost is raised."""
        async with await self.acquire(name) as lease:
            yield lease

    async def acquire(self, name: str) -> "Lease":
        """As `lease`, for a caller that releases the lease and checks `is_held` itself."""
        while True:
            if (holder := self._leases.get(name)) is not None:
                await holder.lost()
            with contextlib.suppress(ConnectionLost):
                if (lease := await self.try_lease(name)) is not None:
                    return lease
            if name not in self._leases:
                await asyncio.sleep(RETRY_INTERVAL)

    async def try_lease(self, name: str, *, shared: bool = False) -> "Lease | None":
        """Return the lease, or None if another process or task holds it. Shared leases exclude only leases
        that are not shared. Raises ConnectionLost if there is no session for `CONNECT_TIMEOUT` seconds."""
        self._start()
        connection = self._connection or await self._until_connected()
        attempt = self._tasks.spawn("lease", self._take(connection, name, shared=shared))
        try:
            await asyncio.wait({attempt})
        except asyncio.CancelledError:
            # The statement is not interrupted: it would be unknown whether the lock was taken.
            attempt.add_done_callback(self._release_if_taken)
            raise
        if attempt.cancelled() or connection is not self._connection:
            raise LeaseLost(self.address)
        return attempt.result()

    async def release(self, lease: "Lease") -> None:
        """Release the lease and wait until Postgres has released the lock, so that another process can take
        it."""
        if lease.is_held:
            await asyncio.wait({self._tasks.spawn("lease", self._unlock(lease))})

    # -- inside: leases --

    async def _take(self, connection: Connection, name: str, *, shared: bool) -> "Lease | None":
        async with self._in_use:
            if connection is not self._connection or name in self._leases:
                return None
            try:
                async with asyncio.timeout(RESPONSE_TIMEOUT):
                    taken = await connection.fetchval(SQL.lock_shared if shared else SQL.lock, name)
            except _LOST_ERRORS:
                self._end(connection)
            if connection is not self._connection or not taken:
                return None
            lease = self._leases[name] = Lease(self, name, shared=shared)
            return lease

    def _release_if_taken(self, attempt: "asyncio.Task[Lease | None]") -> None:
        lease = None if attempt.cancelled() or attempt.exception() is not None else attempt.result()
        if lease is not None:
            self._tasks.spawn("lease", self._unlock(lease))

    async def _unlock(self, lease: "Lease") -> None:
        async with self._in_use:
            connection = self._connection
            if connection is None or not lease.is_held:
                return
            lease.end()
            del self._leases[lease.name]
            try:
                async with asyncio.timeout(RESPONSE_TIMEOUT):
                    await connection.execute(SQL.unlock_shared if lease.is_shared else SQL.unlock, lease.name)
            except _LOST_ERRORS:
                self._end(connection)

    # -- inside: the connection --

    def _start(self) -> None:
        if not self._is_started:
            self._is_started = True
            self._tasks.supervise("session with Postgres", self._run, every=RETRY_INTERVAL)

    async def _until_connected(self) -> Connection:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_TIMEOUT):
                while self._connection is None:
                    await self._connected.wait()
        if self._connection is None:
            raise ConnectionLost(self.address)
        return self._connection

    async def _run(self) -> None:
        """Open one connection and serve it until it ends."""
        try:
            connection = await self._connect()
        except _UNAVAILABLE_ERRORS as error:
            if not self._is_unavailable:
                self._is_unavailable = True
                log.warning("The session with Postgres failed and is retried.", problem=str(error))
            return
        self._is_unavailable = False
        try:
            await self._serve(connection)
        finally:
            await self._close(connection)

    async def _connect(self) -> Connection:
        connection = await connect_once(self.address)
        try:
            connection.add_termination_listener(lambda _: self._lose(connection))
            async with asyncio.timeout(CONNECT_TIMEOUT):
                if self._previous is not None:
                    # The server may not have noticed the end of the previous session and still hold its
                    # locks.
                    await connection.execute(SQL.end_previous, *self._previous)
                self._previous = (connection.get_server_pid(), await connection.fetchval(SQL.session_started_at))
                # In this order: a process that checks for listeners from now on finds this one; a process
                # that checked before is notified by this one.
                await connection.execute(SQL.register_listener)
                await connection.add_listener(CHANNEL, self._receive)
                await self._execute_notify(connection, [(_CONNECTED, "")])
        except BaseException:
            connection.terminate()
            raise
        self._connection = connection
        self._connected.set()
        return connection

    async def _serve(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        next_poll = next_check = loop.time()
        while connection is self._connection:
            now = loop.time()
            if now >= next_poll:
                next_poll = now + POLL_INTERVAL
                self._poll()
            if now >= next_check:
                next_check = now + CHECK_INTERVAL
                await self._check(connection)
            await self._send(connection)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(next_check - loop.time()):
                    await self._wake.wait()

    async def _check(self, connection: Connection) -> None:
        """Check that the session responds, and whether other processes listen."""
        before = self._count_received
        try:
            async with self._in_use, asyncio.timeout(RESPONSE_TIMEOUT):
                is_alone = await connection.fetchval(SQL.is_alone)
        except _LOST_ERRORS:
            self._end(connection)
            return
        # A notification received meanwhile may come from a process that has just connected.
        self._is_alone = is_alone and self._count_received == before

    async def _send(self, connection: Connection) -> None:
        """Send the pending notifications. Those added meanwhile are sent as the next batch."""
        self._wake.clear()
        outgoing, self._outgoing = self._outgoing, {}
        if not outgoing or connection is not self._connection:
            return
        try:
            async with self._in_use, asyncio.timeout(RESPONSE_TIMEOUT):
                await self._execute_notify(connection, list(outgoing))
        except _LOST_ERRORS:
            self._end(connection)
        except asyncpg.PostgresError:
            log.exception("Notifications were not sent.", topics=sorted({topic for topic, _ in outgoing}))

    async def _execute_notify(self, connection: Connection, notices: list[tuple[str, str]]) -> None:
        texts = [f"{self._name} {topic} {payload}" for topic, payload in notices]
        await connection.execute(SQL.notify, texts)

    def _lose(self, connection: Connection) -> None:
        """Stop using this connection. Another process may already hold its leases."""
        if connection is not self._connection:
            return
        self._connection = None
        self._connected.clear()
        self._is_alone = False
        leases, self._leases = self._leases, {}
        for lease in leases.values():
            lease.end(is_lost=True)
        self._wake.set()

    def _end(self, connection: Connection) -> None:
        """Close a broken connection, which Postgres may not have closed yet."""
        self._lose(connection)
        connection.terminate()

    async def _close(self, connection: Connection) -> None:
        self._lose(connection)
        with contextlib.suppress(*_LOST_ERRORS):
            await connection.close(timeout=CLOSE_TIMEOUT)

    # -- inside: receiving --

    def _receive(self, connection: object, pid: int, channel: str, text: object) -> None:
        sender, _, rest = str(text).partition(" ")
        if sender == self._name:
            return
        topic, _, payload = rest.partition(" ")
        self._count_received += 1
        if topic == _CONNECTED:
            if self._is_alone:
                # Nothing was sent so far because no process listened.
                self._is_alone = False
                self.notify(_POLL_ALL)
        elif topic == _POLL_ALL:
            self._poll()
        else:
            self._deliver(topic, payload, self._receivers.get(topic, ()))

    def _poll(self) -> None:
        for topic, receivers in tuple(self._receivers.items()):
            self._deliver(topic, None, receivers)

    def _deliver(self, topic: str, payload: str | None, receivers: Sequence[Receiver]) -> None:
        for receive in tuple(receivers):
            try:
                receive(payload)
            except Exception:
                # The other receivers are still called.
                log.exception("A receiver of a notification failed.", topic=topic)


class Lease:
    """A lock that this process holds until it is released or the session is lost.

    As a context manager it is released at the end of the block. When it is lost before that, the task that
    runs the block is cancelled, and LeaseLost is raised.
    """

    def __init__(self, session: Session, name: str, *, shared: bool) -> None:
        self.name = name
        self.is_shared = shared
        self.is_held = True
        self._session = session
        self._ended = asyncio.Event()
        self._task: asyncio.Task[object] | None = None
        self._cancel_requests = 0
        self._was_lost_in_block = False

    async def release(self) -> None:
        await self._session.release(self)

    async def lost(self) -> None:
        """Wait until it is lost or released."""
        await self._ended.wait()

    def end(self, *, is_lost: bool = False) -> None:
        """Mark the lease as no longer held."""
        self.is_held = False
        self._ended.set()
        if is_lost and self._task is not None:
            self._was_lost_in_block = True
            self._task.cancel()

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None, "a block runs in a task"
        if not self.is_held:
            raise LeaseLost(self._session.address)
        self._task, self._cancel_requests = task, task.cancelling()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        assert task is not None, "the block was entered"
        if self._was_lost_in_block:
            # As in `asyncio.timeout`: the task may have been cancelled for another reason as well.
            if task.uncancel() <= self._cancel_requests and kind is asyncio.CancelledError:
                raise LeaseLost(self._session.address) from error
        else:
            await self.release()
