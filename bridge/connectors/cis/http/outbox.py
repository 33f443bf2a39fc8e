"""What waits for published nodes: kept in the database, sent in order, tried again until nobody wants it.

"100, 200, 400 ms; then the durable outbox with the destination's back-off until the task's deadline".
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from bridge.connectors.cis.http.client import EventClient
from bridge.connectors.cis.protocol.error_codes import Again, Delivered, Ended, Outcome
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

LOOK: Final = 1.0
"""Seconds after which it looks by itself: another process may have enqueued something."""
AT_ONCE: Final = 50
FIRST_PAUSE_MS: Final = 1_000
LONGEST_PAUSE_MS: Final = 60_000
PRUNED_EVERY_MS: Final = 60_000
FORGOTTEN_AT_ONCE: Final = 10_000
REMEMBERED_MS: Final = 7 * 24 * 3_600_000
"""For which the ids of what was sent to us are kept, and the names of what we sent."""

NO_PEER: Final = Ended("is no longer a peer of this node")
"""Who has decided that knows what else waited."""

Refused = Callable[[TaskKey, str], Awaitable[object]]


class PublishedOutbox:
    """`refused` is called with tasks that a node will not take, and why. It sends between `start` and
    `close`, in one process of a node; any of them enqueues."""

    def __init__(
        self,
        database: Database,
        client: EventClient,
        settings: CisSettings,
        observer: CisObserver,
        *,
        refused: Refused,
        now_ms: Callable[[], int],
        retry: RetryPolicy = DEFAULT_RETRY_POLICY,
    ) -> None:
        self._database = database
        self._client = client
        self._settings = settings
        self._observer = observer
        self._refused = refused
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
        self,
        connection: Connection,
        peer: str,
        name: str,
        body: bytes,
        deadline: int,
        task: TaskKey | None = None,
    ) -> bool:
        """In the transaction of the caller, who calls `wake` after its end. False: too much waits already."""
        return await cis_events.enqueue(connection, peer, name, body, deadline, task)

    def wake(self) -> None:
        self._woken.set()

    def follow(self, peer: str) -> None:
        """The peer has come, or gone, or is another one: no pause that was made for it counts."""
        worker = self._workers.get(peer)
        if worker is not None:
            # What it was sending it may send twice, under the same id.
            worker.cancel()
        self._woken.set()

    # -- sending --

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
            except ConnectionLost:
                pass  # it is looked at again in a moment
            except Exception as error:
                self._observer.problem("What waits for published nodes was not looked at.", error)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK):
                    await self._woken.wait()
            self._woken.clear()

    async def _look(self) -> None:
        now_ms = self._now_ms()
        async with self._database.transaction() as connection:
            peers = await cis_events.list_peers_with_queue(connection)
            if now_ms >= self._pruned_at + PRUNED_EVERY_MS:
                self._pruned_at = now_ms
                before = now_ms - REMEMBERED_MS
                await cis_events.prune_outgoing(connection, before, FORGOTTEN_AT_ONCE)
                await cis_events.prune_received(connection, before, FORGOTTEN_AT_ONCE)
        for peer in peers:
            if peer not in self._workers:
                worker = self._background.spawn("events for a published node", self._work_off(peer))
                self._workers[peer] = worker
                worker.add_done_callback(partial(self._worked_off, peer))

    def _worked_off(self, peer: str, worker: "asyncio.Task[None]") -> None:
        del self._workers[peer]

    async def _work_off(self, peer: str) -> None:
        """Until nothing waits for the peer."""
        failures = 0
        try:
            while True:
                async with self._database.transaction(readonly=True) as connection:
                    rows = await cis_events.list_queued(connection, peer, AT_ONCE)
                if not rows:
                    return
                for row in rows:
                    outcome = await self._send(self._settings.access(peer), row)
                    if isinstance(outcome, Again):
                        failures += 1
                        await asyncio.sleep(self._pause(failures) / 1000)
                        break
                    failures = 0
                    await self._is_done(row, outcome, peer)
        except ConnectionLost:
            return
        except Exception as error:
            self._observer.problem(f"What waits for {peer} was not sent.", error)

    def _pause(self, failures: int) -> int:
        delay = self._retry.delay_ms(failures)
        if delay is not None:
            return delay
        return min(FIRST_PAUSE_MS << min(failures - self._retry.max_retries - 1, 20), LONGEST_PAUSE_MS)

    async def _send(self, access: PeerAccess | None, row: QueuedEvent) -> Outcome:
        if access is None or access.url is None:
            return NO_PEER
        if self._now_ms() >= row.deadline:
            return Ended("could not be reached in time")
        return await self._client.send(access.url, row.body)

    async def _is_done(self, row: QueuedEvent, outcome: Delivered | Ended, peer: str) -> None:
        if isinstance(outcome, Ended) and row.requester_node is not None and row.request_id is not None:
            # First: after a kill in between it is said once more, which changes nothing.
            await self._refused(TaskKey(row.requester_node, row.request_id), f"{peer} {outcome.reason}")
        async with self._database.transaction() as connection:
            await cis_events.mark_sent(connection, row.id)
        if isinstance(outcome, Ended) and outcome is not NO_PEER:
            self._observer.problem(f"{peer} did not take an event: it {outcome.reason}.", None)
