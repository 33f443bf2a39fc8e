"""Notifications between the processes of a node, and leases."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from storage.connect import ConnectionLost
from storage.database import Database
from storage.session import LeaseLost, Session
from tests.support.lingering import lingering
from tests.support.postgres import end_sessions, pool_on

TIMEOUT = 60.0
FOR_EVER = 3_600.0
TOPIC = "tests"


@dataclass
class Process:
    """A subscriber of one topic."""

    session: Session
    received: asyncio.Queue[str | None] = field(default_factory=asyncio.Queue)

    async def next(self) -> str | None:
        async with asyncio.timeout(TIMEOUT):
            return await self.received.get()

    async def next_payload(self) -> str:
        while (payload := await self.next()) is None:
            pass
        return payload

    async def send(self, payload: str) -> None:
        """Send once the process knows that it is not alone."""
        async with asyncio.timeout(TIMEOUT):
            while self.session.is_alone or not self.session.is_connected:
                await asyncio.sleep(0.01)
        self.session.notify(TOPIC, payload)

    async def until_alone(self) -> None:
        async with asyncio.timeout(TIMEOUT):
            while not self.session.is_alone:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def process_on(database: Database) -> AsyncIterator[Process]:
    """Wait until it listens."""
    session = Session(database.address)
    process = Process(session)
    session.subscribe(TOPIC, process.received.put_nowait)
    try:
        assert await process.next() is None
        yield process
    finally:
        await session.close()


@pytest.fixture
async def two(database: Database) -> AsyncIterator[tuple[Session, Session]]:
    sessions = Session(database.address), Session(database.address)
    yield sessions
    for session in sessions:
        await session.close()


async def test_other_processes_are_notified(database: Database) -> None:
    """Those that have subscribed to the topic; the sender is not."""
    async with process_on(database) as one, process_on(database) as other:
        await one.send("first, with spaces")
        one.session.notify("something", "else")
        one.session.notify(TOPIC)
        assert [await other.next_payload(), await other.next_payload()] == ["first, with spaces", ""]
        await other.send("back")
        assert await one.next_payload() == "back"


async def test_a_process_that_is_alone_sends_nothing(database: Database) -> None:
    """A process that connects later polls the tables, also for notifications that were not sent."""
    async with pool_on(database.address) as pool, pool.connection() as spectator:
        sent: asyncio.Queue[str] = asyncio.Queue()
        await spectator.add_listener("palaver", lambda *notice: sent.put_nowait(str(notice[-1])))
        async with process_on(database) as one:
            await one.until_alone()
            while not sent.empty():
                sent.get_nowait()
            one.session.notify(TOPIC, "nothing")
            async with process_on(database) as other:
                assert await other.next() is None
                assert not one.session.is_alone
                one.session.notify(TOPIC, "something")
                assert await other.next_payload() == "something"
            await one.until_alone()
        async with asyncio.timeout(TIMEOUT):
            texts = [await sent.get() for _ in range(3)]
        assert [text.split()[1:] for text in texts] == [["+"], ["*"], [TOPIC, "something"]]


async def test_receivers_poll_regularly(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost notification only causes a delay."""
    monkeypatch.setattr("storage.session.POLL_INTERVAL", 0.01)
    monkeypatch.setattr("storage.session.CHECK_INTERVAL", 0.01)
    async with process_on(database) as one:
        for _ in range(3):
            assert await one.next() is None


async def test_a_later_subscriber_polls_at_once(database: Database) -> None:
    """It is no longer called once the subscription has ended."""
    async with process_on(database) as one, process_on(database) as other:
        late: asyncio.Queue[str | None] = asyncio.Queue()
        end = one.session.subscribe(TOPIC, late.put_nowait)
        async with asyncio.timeout(TIMEOUT):
            assert await late.get() is None
        end()
        end()
        await other.send("something")
        assert await one.next_payload() == "something"
        assert late.empty()


async def test_a_session_reconnects(database: Database) -> None:
    """A restart of Postgres ends the connection; receivers poll for missed notifications."""
    async with process_on(database) as one, process_on(database) as other:
        await end_sessions(database)
        assert await one.next() is None
        assert await other.next() is None
        await other.send("something")
        assert await one.next_payload() == "something"


async def test_a_failing_receiver_is_reported(database: Database) -> None:
    """The others are still called, and so is it for the next notification."""
    async with process_on(database) as one, process_on(database) as other:
        received: asyncio.Queue[str | None] = asyncio.Queue()

        def fail(payload: str | None) -> None:
            raise ValueError("broken")

        with capture_logs() as logs:
            one.session.subscribe(TOPIC, fail)
            one.session.subscribe(TOPIC, received.put_nowait)
            for payload in ("first", "second"):
                await other.send(payload)
                assert await one.next_payload() == payload
        assert {entry["topic"] for entry in logs if entry["log_level"] == "error"} == {TOPIC}


@pytest.mark.parametrize("payload", ["x" * 9_000, "\0"], ids=["long", "null"])
async def test_a_refused_notification_ends_no_lease(database: Database, payload: str) -> None:
    """It is reported, and later ones are sent."""
    async with process_on(database) as one, process_on(database) as other:
        lease = await one.session.try_lease("a")
        assert lease is not None
        with capture_logs() as logs:
            await one.send(payload)
            while not logs:
                await asyncio.sleep(0.01)
        one.session.notify(TOPIC, "something")
        assert await other.next_payload() == "something"
        assert lease.is_held


async def test_pending_notifications_are_sent_before_closing(database: Database) -> None:
    """The last changes of a process may matter to the others."""
    async with process_on(database) as other:
        async with process_on(database) as one:
            await one.send("bye")
        assert await other.next_payload() == "bye"


async def test_a_lease_has_one_holder_at_a_time(two: tuple[Session, Session]) -> None:
    """In this process and among all processes; leases with different names are independent."""
    one, other = two
    holding: list[str] = []

    async def hold(session: Session, name: str) -> None:
        async with session.lease(name):
            assert name not in holding
            holding.append(name)
            await asyncio.sleep(0.01)
            holding.remove(name)

    async with asyncio.timeout(TIMEOUT), one.lease("b"):
        await asyncio.gather(*(hold(session, "a") for session in (one, one, other, other)))


async def test_trying_a_lease_does_not_wait(two: tuple[Session, Session]) -> None:
    """`try_lease` returns None at once; after the release another process gets it."""
    one, other = two
    lease = await one.try_lease("a")
    assert lease is not None
    assert await one.try_lease("a") is None
    assert await other.try_lease("a") is None
    await lease.release()
    await lease.release()
    assert not lease.is_held
    assert await other.try_lease("a") is not None


async def test_shared_and_exclusive_leases_exclude_each_other(two: tuple[Session, Session]) -> None:
    one, _ = two
    shares = [await session.try_lease("a", shared=True) for session in two]
    assert all(shares)
    async with AsyncExitStack() as stack:
        third = Session(one.address)
        stack.push_async_callback(third.close)
        assert await third.try_lease("a") is None
        assert await third.try_lease("b") is not None
        assert await one.try_lease("b", shared=True) is None
        for share in shares:
            assert share is not None
            await share.release()
        assert await third.try_lease("a") is not None


async def test_a_block_with_a_lost_lease_is_cancelled(database: Database, two: tuple[Session, Session]) -> None:
    """It is cancelled when the session ends, and another process gets the lease."""
    one, other = two
    begun = asyncio.Event()
    cancelled = asyncio.Event()

    async def hold() -> None:
        async with one.lease("a"):
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

    holding = asyncio.create_task(hold())
    await begun.wait()
    await end_sessions(database)
    async with asyncio.timeout(TIMEOUT):
        async with other.lease("a"):
            assert cancelled.is_set()
            with pytest.raises(LeaseLost):
                await holding
            assert await one.try_lease("a") is None
        async with one.lease("a") as lease:
            assert lease.is_held


async def test_a_lease_without_a_block_reports_its_loss(database: Database, two: tuple[Session, Session]) -> None:
    """It cannot be entered any more either."""
    lease = await two[0].try_lease("a")
    assert lease is not None
    waiting = asyncio.create_task(lease.lost())
    await end_sessions(database)
    async with asyncio.timeout(TIMEOUT):
        await waiting
    assert not lease.is_held
    with pytest.raises(LeaseLost):
        async with lease:
            pass
    await lease.release()


async def test_a_block_that_is_cancelled_and_loses_its_lease_is_cancelled(two: tuple[Session, Session]) -> None:
    """The loss does not replace the cancellation."""
    one, _ = two
    begun = asyncio.Event()

    async def hold() -> None:
        async with one.lease("a"):
            begun.set()
            await asyncio.Event().wait()

    holding = asyncio.create_task(hold())
    await begun.wait()
    holding.cancel()
    closing = asyncio.create_task(one.close())
    with pytest.raises(asyncio.CancelledError):
        await holding
    await closing


async def test_a_cancelled_request_leaves_no_lock(two: tuple[Session, Session]) -> None:
    """At whatever point it is cancelled."""
    one, other = two
    ready = await one.try_lease("ready")
    assert ready is not None
    for turns in range(8):
        attempt = asyncio.create_task(one.try_lease("a"))
        for _ in range(turns):
            await asyncio.sleep(0)
        if not attempt.cancel():
            lease = attempt.result()
            assert lease is not None
            await lease.release()
        await asyncio.wait({attempt})
        async with asyncio.timeout(TIMEOUT), other.lease("a"):
            pass


async def test_a_block_is_cancelled_while_the_server_ends_the_session(database: Database) -> None:
    """Between the server's termination message and the end of the connection nothing can be released, and
    nothing needs to be."""
    async with lingering(database) as link:
        session = Session(link.address)
        begun = asyncio.Event()

        async def hold() -> None:
            async with session.lease("a"):
                begun.set()
                await asyncio.Event().wait()

        holding = asyncio.create_task(hold())
        await begun.wait()
        await link.end_holders()
        holding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holding
        # The next request does not wait for a session that does not respond.
        async with asyncio.timeout(TIMEOUT), session.lease("a"):
            pass
        await session.close()


async def test_a_lost_session_keeps_no_lease(database: Database) -> None:
    """A server may notice a broken connection only after hours. The process terminates the old session
    itself."""
    async with lingering(database) as link, pool_on(link.address) as process:
        lease = await process.session.acquire("work")
        link.lose_clients()
        await lease.lost()
        async with asyncio.timeout(TIMEOUT), process.session.lease("work"):
            pass


async def test_without_postgres_a_lease_is_refused(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within a limited time; closing does not need Postgres either."""
    monkeypatch.setattr("storage.session.CONNECT_TIMEOUT", 0.01)
    session = Session(database.address.with_database("there_is_none"))
    with pytest.raises(ConnectionLost):
        await session.try_lease("a")
    await session.close()


async def test_an_unused_session_can_be_closed(database: Database) -> None:
    """It has never connected."""
    await Session(database.address).close()
