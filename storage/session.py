"""The process's own session with Postgres: notifications between the processes of a node, and leases.

A lease is an advisory lock of the session. However the process ends, `kill -9` included, Postgres gives its
locks to the next process that asks. When the session is lost, its leases are lost at once.

A notification may be lost, so its receivers also survey the tables: after each (re)connect and every 30
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
from storage.connect import BROKEN, ConnectionLost, DatabaseAddress, Single, connect_once
from storage.errors import LocalError
from storage.statements import load

SQL = load("storage", "session.sql")

CHANNEL: Final = "palaver"
MOST_PAYLOAD_BYTES: Final = 7_900
"""Postgres refuses notifications of 8,000 bytes, of which a few are the sender's name and the topic."""
MOST_WAITING: Final = 10_000
"""Notifications that wait to be sent. Others are left to the surveys of the receivers."""
SURVEY: Final = 30.0
CHECK: Final = 1.0
"""Seconds between two checks that the session answers and whether other processes listen."""
RETRY: Final = 0.5
"""Seconds before a lease that another process holds is requested again, and before a reconnect."""
ANSWERED_WITHIN: Final = 5.0
"""Seconds after which a session that does not answer counts as lost."""
CLOSED_WITHIN: Final = 2.0
CONNECTED_WITHIN: Final = 10.0

_LOST: Final[tuple[type[Exception], ...]] = (*BROKEN, OSError, TimeoutError)
_AWAY: Final[tuple[type[Exception], ...]] = (*_LOST, LocalError)
_SURVEY_ALL: Final = "*"
_ARRIVED: Final = "+"

Receiver: TypeAlias = Callable[[str | None], None]
"""Gets a payload, or None: notifications may have been missed, survey the tables."""


log = structlog.get_logger("palaver.session")


class LeaseLost(ConnectionLost):
    """The session has ended, and with it the lease."""


class Session:
    """It connects when it is first used, and again whenever the connection is lost."""

    def __init__(self, address: DatabaseAddress) -> None:
        self.address = address
        self._name = secrets.token_hex(8)
        self._tasks = BackgroundTasks()
        self._is_started = False
        self._connection: Single | None = None
        # The pid and the start of the last connection's session, as the server knows it.
        self._previous: tuple[int, datetime] | None = None
        self._connected = asyncio.Event()
        self._using = asyncio.Lock()
        self._wake = asyncio.Event()
        self._receivers: dict[str, list[Receiver]] = {}
        self._outgoing: dict[tuple[str, str], None] = {}
        self._is_alone = False
        # Whether that was logged.
        self._is_away = False
        self._count_received = 0
        self._leases: dict[str, Lease] = {}

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    @property
    def is_alone(self) -> bool:
        """Whether no other process listens. Then nothing is sent: nearly every node is one process."""
        return self._is_alone

    async def close(self) -> None:
        """Sends what waits; leases and subscriptions end."""
        if self._connection is not None:
            await self._send(self._connection)
        await self._tasks.close()

    # -- notifications --

    def subscribe(self, topic: str, receive: Receiver) -> Callable[[], None]:
        """Call `receive` with what other processes send on the topic, and with None whenever a survey is due.
        Returns a function that ends the subscription."""
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
        """Tell other processes, outside any transaction and together with what else waits: a transaction that
        notifies keeps all others that do from committing at the same time. Call it after the commit."""
        if not self._is_alone and len(self._outgoing) < MOST_WAITING:
            self._outgoing[topic, payload] = None
            self._wake.set()
            self._start()

    # -- leases --

    @contextlib.asynccontextmanager
    async def lease(self, name: str) -> "AsyncIterator[Lease]":
        """Hold the lease while the block runs, once neither another process nor another task of this one
        does. When the lease is lost the block is cancelled, and LeaseLost is raised."""
        async with await self.acquire(name) as lease:
            yield lease

    async def acquire(self, name: str) -> "Lease":
        """As `lease`, for a holder that looks itself whether it is still held."""
        while True:
            if (holder := self._leases.get(name)) is not None:
                await holder.lost()
            with contextlib.suppress(ConnectionLost):
                if (lease := await self.try_lease(name)) is not None:
                    return lease
            if name not in self._leases:
                await asyncio.sleep(RETRY)

    async def try_lease(self, name: str, *, shared: bool = False) -> "Lease | None":
        """The lease, or None if another process or another task has it. Shared, it is exclusive of those that
        are not. Raises ConnectionLost if there is no session for a while."""
        self._start()
        connection = self._connection or await self._until_connected()
        attempt = self._tasks.spawn("lease", self._take(connection, name, shared=shared))
        try:
            await asyncio.wait({attempt})
        except asyncio.CancelledError:
            # The statement is not interrupted: whether the lock was taken would be unknown.
            attempt.add_done_callback(self._give_back)
            raise
        if attempt.cancelled() or connection is not self._connection:
            raise LeaseLost(self.address)
        return attempt.result()

    async def release(self, lease: "Lease") -> None:
        """Waits until Postgres has the lock back, so that another process can take it at once."""
        if lease.is_held:
            await asyncio.wait({self._tasks.spawn("lease", self._unlock(lease))})

    # -- inside: leases --

    async def _take(self, connection: Single, name: str, *, shared: bool) -> "Lease | None":
        async with self._using:
            if connection is not self._connection or name in self._leases:
                return None
            try:
                async with asyncio.timeout(ANSWERED_WITHIN):
                    taken = await connection.fetchval(SQL.lock_shared if shared else SQL.lock, name)
            except _LOST:
                self._end(connection)
            if connection is not self._connection or not taken:
                return None
            lease = self._leases[name] = Lease(self, name, shared=shared)
            return lease

    def _give_back(self, attempt: "asyncio.Task[Lease | None]") -> None:
        lease = None if attempt.cancelled() or attempt.exception() is not None else attempt.result()
        if lease is not None:
            self._tasks.spawn("lease", self._unlock(lease))

    async def _unlock(self, lease: "Lease") -> None:
        async with self._using:
            connection = self._connection
            if connection is None or not lease.is_held:
                return
            lease.end()
            del self._leases[lease.name]
            try:
                async with asyncio.timeout(ANSWERED_WITHIN):
                    await connection.execute(SQL.unlock_shared if lease.is_shared else SQL.unlock, lease.name)
            except _LOST:
                self._end(connection)

    # -- inside: the connection --

    def _start(self) -> None:
        if not self._is_started:
            self._is_started = True
            self._tasks.supervise("session with Postgres", self._run, every=RETRY)

    async def _until_connected(self) -> Single:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONNECTED_WITHIN):
                while self._connection is None:
                    await self._connected.wait()
        if self._connection is None:
            raise ConnectionLost(self.address)
        return self._connection

    async def _run(self) -> None:
        """One connection, from its beginning to its end."""
        try:
            connection = await self._connect()
        except _AWAY as error:
            if not self._is_away:
                self._is_away = True
                log.warning("There is no session with Postgres; it is tried again.", problem=str(error))
            return
        self._is_away = False
        try:
            await self._serve(connection)
        finally:
            await self._close(connection)

    async def _connect(self) -> Single:
        connection = await connect_once(self.address)
        try:
            connection.add_termination_listener(lambda _: self._lose(connection))
            async with asyncio.timeout(CONNECTED_WITHIN):
                if self._previous is not None:
                    # The server may not have noticed that it ended, and would keep its leases from this one.
                    await connection.execute(SQL.end_previous, *self._previous)
                self._previous = connection.get_server_pid(), await connection.fetchval(SQL.started)
                # In this order: a process that looks for others from now on finds this one; a process that
                # looked before is notified by this one.
                await connection.execute(SQL.count_in)
                await connection.add_listener(CHANNEL, self._receive)
                await self._execute_notify(connection, [(_ARRIVED, "")])
        except BaseException:
            connection.terminate()
            raise
        self._connection = connection
        self._connected.set()
        return connection

    async def _serve(self, connection: Single) -> None:
        loop = asyncio.get_running_loop()
        next_survey = next_check = loop.time()
        while connection is self._connection:
            now = loop.time()
            if now >= next_survey:
                next_survey = now + SURVEY
                self._survey()
            if now >= next_check:
                next_check = now + CHECK
                await self._check(connection)
            await self._send(connection)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(next_check - loop.time()):
                    await self._wake.wait()

    async def _check(self, connection: Single) -> None:
        """Whether the session answers, and whether other processes listen."""
        before = self._count_received
        try:
            async with self._using, asyncio.timeout(ANSWERED_WITHIN):
                is_alone = await connection.fetchval(SQL.is_alone)
        except _LOST:
            self._end(connection)
            return
        # What was received meanwhile may come from a process that was not there yet.
        self._is_alone = is_alone and self._count_received == before

    async def _send(self, connection: Single) -> None:
        """What is added while this is under way is sent together afterwards."""
        self._wake.clear()
        outgoing, self._outgoing = self._outgoing, {}
        if not outgoing or connection is not self._connection:
            return
        try:
            async with self._using, asyncio.timeout(ANSWERED_WITHIN):
                await self._execute_notify(connection, list(outgoing))
        except _LOST:
            self._end(connection)
        except asyncpg.PostgresError:
            log.exception("Notifications could not be sent.", topics=sorted({topic for topic, _ in outgoing}))

    async def _execute_notify(self, connection: Single, notices: list[tuple[str, str]]) -> None:
        texts = [f"{self._name} {topic} {payload}" for topic, payload in notices]
        await connection.execute(SQL.notify, texts)

    def _lose(self, connection: Single) -> None:
        """Nothing more comes of this connection. Its leases may be another process's by now."""
        if connection is not self._connection:
            return
        self._connection = None
        self._connected.clear()
        self._is_alone = False
        leases, self._leases = self._leases, {}
        for lease in leases.values():
            lease.end(is_lost=True)
        self._wake.set()

    def _end(self, connection: Single) -> None:
        """It is broken, or about to break: Postgres need not have closed it yet."""
        self._lose(connection)
        connection.terminate()

    async def _close(self, connection: Single) -> None:
        self._lose(connection)
        with contextlib.suppress(*_LOST):
            await connection.close(timeout=CLOSED_WITHIN)

    # -- inside: receiving --

    def _receive(self, connection: object, pid: int, channel: str, text: object) -> None:
        sender, _, rest = str(text).partition(" ")
        if sender == self._name:
            return
        topic, _, payload = rest.partition(" ")
        self._count_received += 1
        if topic == _ARRIVED:
            if self._is_alone:
                # What was not sent until now because nothing listened.
                self._is_alone = False
                self.notify(_SURVEY_ALL)
        elif topic == _SURVEY_ALL:
            self._survey()
        else:
            self._deliver(topic, payload, self._receivers.get(topic, ()))

    def _survey(self) -> None:
        for topic, receivers in tuple(self._receivers.items()):
            self._deliver(topic, None, receivers)

    def _deliver(self, topic: str, payload: str | None, receivers: Sequence[Receiver]) -> None:
        for receive in tuple(receivers):
            try:
                receive(payload)
            except Exception:
                # The other receivers get it all the same.
                log.exception("A notification was not handled.", topic=topic)


class Lease:
    """Held by this process until it is released or the session is lost.

    As a context manager it is released at the end of the block. When it is lost before, the task that runs
    the block is cancelled, and LeaseLost is raised.
    """

    def __init__(self, session: Session, name: str, *, shared: bool) -> None:
        self.name = name
        self.is_shared = shared
        self.is_held = True
        self._session = session
        self._ended = asyncio.Event()
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._interrupts = False

    async def release(self) -> None:
        await self._session.release(self)

    async def lost(self) -> None:
        """Wait until it is lost or released."""
        await self._ended.wait()

    def end(self, *, is_lost: bool = False) -> None:
        """It is not held any more."""
        self.is_held = False
        self._ended.set()
        if is_lost and self._task is not None:
            self._interrupts = True
            self._task.cancel()

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None, "a block runs in a task"
        if not self.is_held:
            raise LeaseLost(self._session.address)
        self._task, self._cancelling = task, task.cancelling()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        assert task is not None, "the block was entered"
        if self._interrupts:
            # As `asyncio.timeout` does: somebody else may have cancelled the task as well.
            if task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
                raise LeaseLost(self._session.address) from error
        else:
            await self.release()
