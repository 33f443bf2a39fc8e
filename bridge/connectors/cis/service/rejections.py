"""Tells peers why a request of theirs has not become a task.

"Wrong payloads get `INVALID_PAYLOAD` with the field named". Such an answer is not kept: whoever asks again is
told again. Who asks wrongly without end is not answered without end.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Final

from bridge.connectors.cis import task_events
from bridge.connectors.cis.effects import NotAsked
from bridge.connectors.cis.service.observer import CisObserver
from bridge.connectors.cis.service.sender import Channels, Letter, NotSaid
from bridge.connectors.cis.settings import CisSettings
from federation.peers.limits import Buckets, Rate
from storage.concurrency import BackgroundTasks

OF_PEER: Final = Rate(20, 200)
MOST_WAITING: Final = 1_000
WORTH_MS: Final = 300_000
"""For so long the peer may want to know; it gives up after that."""


class Refusing:
    """It runs between `start` and `close`."""

    def __init__(
        self,
        settings: CisSettings,
        channels: Channels,
        observer: CisObserver,
        *,
        now_ms: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._channels = channels
        self._observer = observer
        self._now_ms = now_ms
        self._monotonic = monotonic
        self._rates: Buckets[str] = Buckets(10_000)
        self._waiting: asyncio.Queue[NotAsked] = asyncio.Queue(MOST_WAITING)
        self._background = BackgroundTasks()

    def start(self) -> None:
        self._background.supervise("refusals of tasks", self._run)

    async def close(self) -> None:
        await self._background.close()

    def refuse(self, refused: NotAsked) -> None:
        excess = self._rates.take(refused.node_id, OF_PEER, self._monotonic())
        if excess is None and not self._waiting.full():
            self._waiting.put_nowait(refused)

    async def _run(self) -> None:
        while True:
            refused = await self._waiting.get()
            try:
                await self._answer(refused)
            except Exception as error:
                self._observer.problem(f"{refused.node_id} could not be told of a refusal.", error)

    async def _answer(self, refused: NotAsked) -> None:
        access = self._settings.access(refused.node_id)
        if access is None:
            return
        event = task_events.refusal_event(refused.event, refused.error, self._now_ms(), self._settings)
        name = f"refusal {secrets.token_hex(16)}"
        letter = Letter(
            event, refused.namespace, self._settings.node_address, name, self._now_ms() + WORTH_MS
        )
        outcome = await self._channels.send(access, letter)
        if isinstance(outcome, NotSaid):
            self._observer.problem(f"{refused.node_id} was not told of a refusal: {outcome.reason}", None)
