"""What happens in this process, told to those who watch it, and kept for nobody.

Each of them has a queue of its own with a limit; whoever does not keep up is told how much was left out,
which is the oldest. Without anybody who watches nothing is made at all.

The node's observer of tasks writes into it (`changed`, `dropped`, `heard`), connectors do (`show`), and it
listens to the routing table (`agents_changed`). Of tasks it sees what this process does; of agents what any
process of the node has learned.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from bridge.agents.routing_table import Change
from bridge.observability.live_event import LiveEvent, LiveFilter, of_agent, of_drop, of_progress, of_task
from bridge.tasks.messages import DroppedMessage
from bridge.tasks.task import Task

MOST_WAITING: Final = 1_000
"""Events for one who watches; each has a few kilobytes at most."""
MOST_AT_ONCE: Final = 10_000
"""Of changes that come together: of a node that is learned with more agents, nobody reads them one by one."""


class LiveListener:
    """What one who watches has still to be told."""

    def __init__(self, wanted: LiveFilter, most: int = MOST_WAITING) -> None:
        self._wanted = wanted
        self._waiting: deque[Mapping[str, Any]] = deque(maxlen=most)
        self._left_out = 0
        self._something = asyncio.Event()

    def put(self, event: LiveEvent) -> None:
        if self._wanted.wants(event):
            if len(self._waiting) == self._waiting.maxlen:
                self._left_out += 1
            self._waiting.append(event.said)
            self._something.set()

    def leave_out(self, count: int) -> None:
        self._left_out += count
        self._something.set()

    async def next(self) -> Mapping[str, Any]:
        """Before what is still there stands how much is not."""
        while True:
            if self._left_out:
                count, self._left_out = self._left_out, 0
                return {"type": "left_out", "count": count}
            if self._waiting:
                return self._waiting.popleft()
            self._something.clear()
            await self._something.wait()


class LiveFeed:
    def __init__(self, *, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._listeners: list[LiveListener] = []

    @contextmanager
    def listening(self, wanted: LiveFilter, most: int = MOST_WAITING) -> Iterator[LiveListener]:
        listener = LiveListener(wanted, most)
        self._listeners.append(listener)
        try:
            yield listener
        finally:
            self._listeners.remove(listener)

    # -- what is told --

    def agents_changed(self, changes: Sequence[Change]) -> None:
        if not self._listeners:
            return
        now_ms = self._now_ms()
        self._tell(of_agent(one.before, one.after, now_ms) for one in changes[:MOST_AT_ONCE])
        if len(changes) > MOST_AT_ONCE:
            for listener in self._listeners:
                listener.leave_out(len(changes) - MOST_AT_ONCE)

    def changed(self, task: Task) -> None:
        if self._listeners:
            self._tell([of_task(task, self._now_ms())])

    def dropped(self, task: Task | None, dropped: DroppedMessage) -> None:
        if self._listeners:
            self._tell([of_drop(task, dropped, self._now_ms())])

    def heard(self, task: Task, content: Mapping[str, Any]) -> None:
        if self._listeners:
            self._tell([of_progress(task, content, self._now_ms())])

    def show(self, make: Callable[[int], LiveEvent]) -> None:
        """An event of a connector. It is made only if somebody watches."""
        if self._listeners:
            self._tell([make(self._now_ms())])

    def _tell(self, events: Iterable[LiveEvent | None]) -> None:
        for event in events:
            if event is not None:
                for listener in self._listeners:
                    listener.put(event)
