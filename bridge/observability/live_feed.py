"""Passes the events of this process to its watchers, without storing them.

Each watcher has its own bounded queue; a slow watcher loses the oldest events and receives their count.
Without watchers no events are built.

Sources are the node's task observer (`changed`, `dropped`, `progress`), connectors (`show`) and the routing
table (`agents_changed`). Task events cover this process only, agent events all processes of the node.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from bridge.agents.routing_table import Change
from bridge.observability.live_event import LiveEvent, LiveFilter, agent_event, drop_event, progress_event, task_event
from bridge.tasks.messages import DroppedMessage
from bridge.tasks.task import Task

MAX_WAITING: Final = 1_000
"""Queued events per watcher; each has at most a few kilobytes."""
MAX_AT_ONCE: Final = 10_000
"""Events per batch of changes: a person cannot read the events of more agents one by one."""


class LiveListener:
    """The queued events of one watcher."""

    def __init__(self, wanted: LiveFilter, most: int = MAX_WAITING) -> None:
        self._wanted = wanted
        self._queue: deque[Mapping[str, Any]] = deque(maxlen=most)
        self._skipped = 0
        self._changed = asyncio.Event()

    def put(self, event: LiveEvent) -> None:
        if self._wanted.wants(event):
            if len(self._queue) == self._queue.maxlen:
                self._skipped += 1
            self._queue.append(event.data)
            self._changed.set()

    def skip(self, count: int) -> None:
        self._skipped += count
        self._changed.set()

    async def next(self) -> Mapping[str, Any]:
        """The count of skipped events precedes the remaining ones."""
        while True:
            if self._skipped:
                count, self._skipped = self._skipped, 0
                return {"type": "left_out", "count": count}
            if self._queue:
                return self._queue.popleft()
            self._changed.clear()
            await self._changed.wait()


class LiveFeed:
    def __init__(self, *, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._listeners: list[LiveListener] = []

    @contextmanager
    def listening(self, wanted: LiveFilter, most: int = MAX_WAITING) -> Iterator[LiveListener]:
        listener = LiveListener(wanted, most)
        self._listeners.append(listener)
        try:
            yield listener
        finally:
            self._listeners.remove(listener)

    # -- sources --

    def agents_changed(self, changes: Sequence[Change]) -> None:
        if not self._listeners:
            return
        now_ms = self._now_ms()
        self._publish(agent_event(one.before, one.after, now_ms) for one in changes[:MAX_AT_ONCE])
        if len(changes) > MAX_AT_ONCE:
            for listener in self._listeners:
                listener.skip(len(changes) - MAX_AT_ONCE)

    def changed(self, task: Task) -> None:
        if self._listeners:
            self._publish([task_event(task, self._now_ms())])

    def dropped(self, task: Task | None, dropped: DroppedMessage) -> None:
        if self._listeners:
            self._publish([drop_event(task, dropped, self._now_ms())])

    def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        if self._listeners:
            self._publish([progress_event(task, content, self._now_ms())])

    def show(self, make: Callable[[int], LiveEvent]) -> None:
        """Publish a connector's event. It is only built if there are watchers."""
        if self._listeners:
            self._publish([make(self._now_ms())])

    def _publish(self, events: Iterable[LiveEvent | None]) -> None:
        for event in events:
            if event is not None:
                for listener in self._listeners:
                    listener.put(event)
