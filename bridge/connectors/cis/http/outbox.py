"""The outbox for published nodes: events are queued in the database, sent in order and retried.

"100, 200, 400 ms; then the durable outbox with the destination's back-off until the task's deadline".
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from bridge.connectors.cis.http.client import EventClient
from bridge.connectors.cis.protocol.error_codes import Delivered, PermanentFailure, SendResult, TemporaryFailure
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.settings import CisSettings
from bridge.peers.peer import PeerAccess
from bridge.tasks.request import TaskKey
from bridge.tasks.retry import DEFAULT_RETRY_POLICY, RetryPolicy
from storage.agents import cis_events
from storage.agents.cis_events import QueuedEvent
from storage.concurrency import BackgroundTasks
from storage.connect import ConnectionLost
from storage.database import Connection, Database

POLL_INTERVAL: Final = 1.0
"""Seconds between polls of the queue: another process may have enqueued an event."""
BATCH_SIZE: Final = 50
FIRST_PAUSE_MS: Final = 1_000
LONGEST_PAUSE_MS: Final = 60_000
PRUNE_INTERVAL_MS: Final = 60_000
PRUNE_BATCH_SIZE: Final = 10_000
RETENTION_MS: Final = 7 * 24 * 3_600_000
"""How long the ids of received events and the keys of sent events are stored."""

NO_PEER: Final = PermanentFailure("is no longer a peer of this node")
"""Not reported: the operator who removed the peer knows that queued events are dropped."""

Undeliverable = Callable[[TaskKey, str], Awaitable[object]]


class PublishedOutbox:
    """`undeliverable` is called with the key of a task that a node will not accept, and the reason. Events
    are sent between `start` and `close`, in one process of a node; every process may enqueue."""

    def __init__(
        self,
        database: Database,
        client: EventClient,
        settings: CisSettings,
        observer: CisObserver,
        *,
        undeliverable: Undeliverable,
        now_ms: Callable[[], int],
        retry: RetryPolicy = DEFAULT_RETRY_POLICY,
    ) -> None:
        self._database = database
        self._client = client
        self._settings = settings
        self._observer = observer
        self._undeliverable = undeliverable
        self._now_ms = now_ms
        self._retry = retry
        self._woken = asyncio.Event()
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._background = BackgroundTasks()
        self._pruned_at = 0

    def start(self) -> None:
        self._background.supervise("events for published nodes", self._run)

    async def close(self) -> None:
        await self._background.close()

    async def enqueue(
        self, connection: Connection, peer: str, key: str, body: bytes, deadline: int, task: TaskKey | None = None
    ) -> bool:
        """Enqueue an event in the caller's transaction; the caller calls `wake` after the commit. Return
        False if the peer's queue is full."""
        return await cis_events.enqueue(connection, peer, key, body, deadline, task)

    def wake(self) -> None:
        self._woken.set()

    def peer_changed(self, peer: str) -> None:
        """The peer was added, removed or changed: retry its events without waiting for the end of a pause."""
        worker = self._workers.get(peer)
        if worker is not None:
            # The event that it was sending may be sent twice, under the same id.
            worker.cancel()
        self._woken.set()

    # -- sending --

    async def _run(self) -> None:
        while True:
            try:
                await self._poll()
            except ConnectionLost:
                pass  # polled again after the interval
            except Exception as error:
                self._observer.report_problem("Failed to read the queue for published nodes.", error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_INTERVAL):
                    await self._woken.wait()
            self._woken.clear()

    async def _poll(self) -> None:
        now_ms = self._now_ms()
        async with self._database.transaction() as connection:
            peers = await cis_events.list_peers_with_queue(connection)
            if now_ms >= self._pruned_at + PRUNE_INTERVAL_MS:
                self._pruned_at = now_ms
                before = now_ms - RETENTION_MS
                await cis_events.prune_outgoing(connection, before, PRUNE_BATCH_SIZE)
                await cis_events.prune_received(connection, before, PRUNE_BATCH_SIZE)
        for peer in peers:
            if peer not in self._workers:
                worker = self._background.spawn("events for a published node", self._send_queued(peer))
                self._workers[peer] = worker
                worker.add_done_callback(partial(self._worker_done, peer))

    def _worker_done(self, peer: str, worker: "asyncio.Task[None]") -> None:
        del self._workers[peer]

    async def _send_queued(self, peer: str) -> None:
        """Send events until the peer's queue is empty."""
        failures = 0
        try:
            while True:
                async with self._database.transaction(readonly=True) as connection:
                    rows = await cis_events.list_queued(connection, peer, BATCH_SIZE)
                if not rows:
                    return
                for row in rows:
                    outcome = await self._send(self._settings.access(peer), row)
                    if isinstance(outcome, TemporaryFailure):
                        failures += 1
                        await asyncio.sleep(self._pause(failures) / 1000)
                        break
                    failures = 0
                    await self._settle(row, outcome, peer)
        except ConnectionLost:
            return
        except Exception as error:
            self._observer.report_problem(f"Failed to send the queued events to {peer}.", error)

    def _pause(self, failures: int) -> int:
        delay = self._retry.delay_ms(failures)
        if delay is not None:
            return delay
        return min(FIRST_PAUSE_MS << min(failures - self._retry.max_retries - 1, 20), LONGEST_PAUSE_MS)

    async def _send(self, access: PeerAccess | None, row: QueuedEvent) -> SendResult:
        if access is None or access.url is None:
            return NO_PEER
        if self._now_ms() >= row.deadline:
            return PermanentFailure("could not be reached in time")
        return await self._client.send(access.url, row.body)

    async def _settle(self, row: QueuedEvent, outcome: Delivered | PermanentFailure, peer: str) -> None:
        if isinstance(outcome, PermanentFailure) and row.requester_node is not None and row.request_id is not None:
            # This comes first: if the process is killed in between, it is called again, which changes
            # nothing.
            await self._undeliverable(TaskKey(row.requester_node, row.request_id), f"{peer} {outcome.reason}")
        async with self._database.transaction() as connection:
            await cis_events.mark_sent(connection, row.id)
        if isinstance(outcome, PermanentFailure) and outcome is not NO_PEER:
            self._observer.report_problem(f"{peer} did not accept an event: it {outcome.reason}.", None)
