"""The queue of events for published nodes."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from bridge.connectors.cis.http.client import EventClient
from bridge.connectors.cis.http.outbox import PublishedOutbox
from bridge.connectors.cis.settings import CisSettings
from bridge.peers.peer import Peer, PeerAccess, PeerProfile
from bridge.tasks.request import TaskKey
from bridge.tasks.retry import RetryPolicy
from storage.agents import cis_events
from storage.database import Database
from tests.bridge.connectors.cis.cis_nodes import TIMEOUT, RecordingObserver
from tests.bridge.connectors.cis.published_node import PublishedNode
from tests.support.agents import NOW, Clock

KEY = TaskKey("here", "req-1")


@dataclass
class OutboxFixture:
    outbox: PublishedOutbox
    database: Database
    observer: RecordingObserver
    clock: Clock
    refused: "asyncio.Queue[tuple[TaskKey, str]]"
    client: EventClient

    async def enqueue(
        self, name: str, deadline: int = NOW + 1_000_000, task: TaskKey | None = None, peer: str = "old.local"
    ) -> None:
        body = b'{"event_id":"$%s","type":"io.cis.agent.t"}' % name.encode()
        async with self.database.transaction() as connection:
            assert await self.outbox.enqueue(connection, peer, name, body, deadline, task)
        self.outbox.wake()

    async def until_empty(self) -> None:
        async with asyncio.timeout(TIMEOUT):
            while True:
                async with self.database.transaction() as connection:
                    if not await cis_events.list_peers_with_queue(connection):
                        return
                await asyncio.sleep(0.01)


@pytest.fixture
async def fixture(database: Database, theirs: PublishedNode) -> AsyncIterator[OutboxFixture]:
    observer, clock, client = RecordingObserver(), Clock(), EventClient("Palaver/test")
    refused: asyncio.Queue[tuple[TaskKey, str]] = asyncio.Queue()

    async def refuse(key: TaskKey, reason: str) -> None:
        refused.put_nowait((key, reason))

    access = PeerAccess(Peer("old.local", PeerProfile.CIS_1_1), theirs.url)
    outbox = PublishedOutbox(
        database,
        client,
        CisSettings("here", {"old.local": access}),
        observer,
        undeliverable=refuse,
        now_ms=clock,
        retry=RetryPolicy(3, 1, 10),
    )
    outbox.start()
    yield OutboxFixture(outbox, database, observer, clock, refused, client)
    await outbox.close()
    await client.close()


async def test_queued_events_are_sent_in_order(fixture: OutboxFixture, theirs: PublishedNode) -> None:
    """Each event is sent once."""
    for number in range(20):
        await fixture.enqueue(str(number))
    await fixture.enqueue("3")
    await fixture.until_empty()
    got = [theirs.taken.get_nowait()["event_id"] for _ in range(theirs.taken.qsize())]
    assert got == [f"${number}" for number in range(20)]


async def test_a_failed_event_is_retried(fixture: OutboxFixture, theirs: PublishedNode) -> None:
    """With pauses; no event is skipped or reordered."""
    theirs.answers = [(500, {"accepted": False}), (503, {}), (429, {})]
    await fixture.enqueue("a")
    await fixture.enqueue("b")
    await fixture.until_empty()
    assert [(await theirs.taken.get())["event_id"] for _ in range(2)] == ["$a", "$b"]
    assert theirs.attempts == 5


async def test_a_permanent_failure_is_reported(fixture: OutboxFixture, theirs: PublishedNode) -> None:
    """ "400, 401, 403, 404, 413 end it": the requester of the task is notified."""
    theirs.answers = [(403, {"accepted": False, "error": "not you", "event_id": "$a"})]
    await fixture.enqueue("a", task=KEY)
    await fixture.enqueue("b")
    key, reason = await fixture.refused.get()
    assert key == KEY
    assert reason == "old.local answered 403: not you"
    await fixture.until_empty()
    assert (await theirs.taken.get())["event_id"] == "$b"
    assert len(fixture.observer.problems) == 1


async def test_an_expired_event_is_not_sent(fixture: OutboxFixture, theirs: PublishedNode) -> None:
    """Its task has already ended."""
    await fixture.enqueue("a", deadline=NOW, task=KEY)
    key, reason = await fixture.refused.get()
    assert (key, reason) == (KEY, "old.local could not be reached in time")
    await fixture.until_empty()
    assert theirs.attempts == 0


async def test_events_for_a_former_peer_are_dropped(fixture: OutboxFixture, theirs: PublishedNode) -> None:
    """They leave the queue."""
    await fixture.enqueue("a", peer="gone.local", task=KEY)
    assert (await fixture.refused.get())[0] == KEY
    await fixture.until_empty()
    assert theirs.attempts == 0


async def test_another_process_continues_the_queue(fixture: OutboxFixture, theirs: PublishedNode) -> None:
    """The queue is in the database."""
    await fixture.outbox.close()
    await fixture.enqueue("a")
    other = PublishedOutbox(
        fixture.database,
        fixture.client,
        fixture.outbox._settings,
        fixture.observer,
        undeliverable=fixture.outbox._undeliverable,
        now_ms=fixture.clock,
    )
    other.start()
    try:
        await fixture.until_empty()
    finally:
        await other.close()
    assert (await theirs.taken.get())["event_id"] == "$a"


async def test_a_peer_is_removed_while_events_are_queued(fixture: OutboxFixture, theirs: PublishedNode) -> None:
    """The pause before a retry ends at once and the events are dropped, without a report. Events that are
    enqueued after the peer was added again are sent to its new URL."""
    peers = dict(fixture.outbox._settings.peers)
    access = peers["old.local"]
    object.__setattr__(fixture.outbox._settings, "peers", peers)
    theirs.answers = [(503, {})] * 1_000
    await fixture.enqueue("a", task=KEY)
    async with asyncio.timeout(TIMEOUT):
        while theirs.attempts < 5:
            await asyncio.sleep(0.01)
    del peers["old.local"]
    fixture.outbox.peer_changed("old.local")
    assert (await fixture.refused.get()) == (KEY, "old.local is no longer a peer of this node")
    await fixture.until_empty()
    assert fixture.observer.problems == []
    theirs.answers.clear()
    peers["old.local"] = access
    fixture.outbox.peer_changed("old.local")
    await fixture.enqueue("b")
    assert (await theirs.taken.get())["event_id"] == "$b"
