"""Lets people see the progress of tasks: the newest of it, and not more often than they can read."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from bridge.people.progress_pace import pause
from bridge.people.service.showing import Showing
from bridge.people.task_texts import progress_text
from bridge.people.text import Text
from bridge.service.session import Report
from bridge.task import Task
from federation.bounded_cache import BoundedCache

MOST: Final = 5_000
"""Tasks whose progress is shown at the same time."""
MOST_REMEMBERED: Final = 10_000


@dataclass(slots=True)
class _Lane:
    task: Task
    newest: Text | None
    work: "asyncio.Task[None] | None" = None


class Reporting:
    """A kill loses what was not shown yet; the next report shows more."""

    def __init__(self, showing: Showing, report: Report) -> None:
        self._showing = showing
        self._report = report
        self._lanes: dict[int, _Lane] = {}
        self._times: BoundedCache[int, int] = BoundedCache(MOST_REMEMBERED)

    async def close(self) -> None:
        works = [lane.work for lane in self._lanes.values() if lane.work is not None]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)

    def progress(self, task: Task, content: Mapping[str, Any]) -> None:
        said = progress_text(content)
        if said is None:
            return
        lane = self._lanes.get(task.id)
        if lane is not None:
            lane.task, lane.newest = task, said
        elif len(self._lanes) < MOST:
            lane = self._lanes[task.id] = _Lane(task, said)
            lane.work = asyncio.create_task(self._run(lane))

    def ended(self, task: Task) -> None:
        """Nothing more is said of its progress."""
        lane = self._lanes.pop(task.id, None)
        if lane is not None and lane.work is not None:
            lane.work.cancel()

    async def _run(self, lane: _Lane) -> None:
        task_id = lane.task.id
        try:
            while (said := lane.newest) is not None:
                lane.newest = None
                times = (self._times.get(task_id) or 0) + 1
                self._times.put(task_id, times)
                await self._showing.report(lane.task, said)
                await asyncio.sleep(pause(times))
        except Exception as error:
            self._report(f"The progress of the task {lane.task.key} is not shown.", error)
        finally:
            self._lanes.pop(task_id, None)
