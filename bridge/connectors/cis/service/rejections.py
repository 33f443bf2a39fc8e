"""Answers requests of peers that have not become tasks.

"Wrong payloads get `INVALID_PAYLOAD` with the field named". Such an answer is not stored: a repeated request
is answered again. The answers to one peer are rate limited.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Final

from bridge.connectors.cis import task_events
from bridge.connectors.cis.effects import RejectTask
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.service.sender import NotSent, OutgoingEvent, PeerMessenger
from bridge.connectors.cis.settings import CisSettings
from federation.peers.limits import Buckets, Rate
from storage.concurrency import BackgroundTasks

PEER_RATE: Final = Rate(20, 200)
MAX_QUEUED: Final = 1_000
VALIDITY_MS: Final = 300_000
"""A published requester gives up after this time, so a later answer is useless."""


class TaskRejections:
    """Queues and sends the answers, between `start` and `close`. An answer above the limits is dropped."""

    def __init__(
        self,
        settings: CisSettings,
        messenger: PeerMessenger,
        observer: CisObserver,
        *,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._messenger = messenger
        self._observer = observer
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._rates: Buckets[str] = Buckets(10_000)
        self._queue: asyncio.Queue[RejectTask] = asyncio.Queue(MAX_QUEUED)
        self._background = BackgroundTasks()

    def start(self) -> None:
        self._background.supervise("refusals of tasks", self._run)

    async def close(self) -> None:
        await self._background.close()

    def reject(self, rejection: RejectTask) -> None:
        excess = self._rates.take(rejection.node_id, PEER_RATE, self._monotonic())
        if excess is None and not self._queue.full():
            self._queue.put_nowait(rejection)

    async def _run(self) -> None:
        while True:
            rejection = await self._queue.get()
            try:
                await self._answer(rejection)
            except Exception as error:
                self._observer.report_problem(f"Failed to send a rejection to {rejection.node_id}.", error)

    async def _answer(self, rejection: RejectTask) -> None:
        access = self._settings.access(rejection.node_id)
        if access is None:
            return
        event = task_events.refusal_event(rejection.event, rejection.error, self._now_ms(), self._settings)
        key = f"refusal {secrets.token_hex(16)}"
        outgoing = OutgoingEvent(
            event, rejection.namespace, self._settings.node_address, key, self._now_ms() + VALIDITY_MS
        )
        outcome = await self._messenger.send(access, outgoing)
        if isinstance(outcome, NotSent):
            self._observer.report_problem(f"Failed to send a rejection to {rejection.node_id}: {outcome.reason}", None)
